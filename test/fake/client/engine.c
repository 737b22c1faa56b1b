/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <stdlib.h>

/* What src/client asks of an engine. A wait turns until nothing more can happen. */

struct kvl_engine {
    kvl_inbox_t inbox;
    kvl_timers_t timers;
    kvl_list_t pollers;
    fake_t *fake;
};

int64_t fake_now_ns = KVL_SECOND;

int64_t __wrap_kvl_now_ns(void);
int64_t __wrap_kvl_now_ns(void)
{
    return fake_now_ns;
}

kvl_engine_t *fake_engine_create(fake_t *fake);
void fake_engine_destroy(kvl_engine_t *engine);

kvl_engine_t *fake_engine_create(fake_t *fake)
{
    kvl_engine_t *engine = calloc(1, sizeof(*engine));

    kvl_inbox_init(&engine->inbox);
    kvl_timers_init(&engine->timers);
    kvl_list_init(&engine->pollers);
    engine->fake = fake;
    return engine;
}

void fake_engine_destroy(kvl_engine_t *engine)
{
    kvl_timers_cleanup(&engine->timers);
    free(engine);
}

void fake_turn(fake_t *fake)
{
    kvl_engine_t *engine    = fake->engine;
    kvl_inbox_node_t *inbox = kvl_inbox_take(&engine->inbox);
    kvl_list_t *node, *next;

    while (inbox) {
        kvl_work_t *work = kvl_container(inbox, kvl_work_t, node);

        inbox = inbox->next;
        work->func(work);
    }
    kvl_timers_run(&engine->timers, fake_now_ns);
    for (node = engine->pollers.next; node != &engine->pollers; node = next) {
        kvl_poller_t *poller = kvl_container(node, kvl_poller_t, link);

        next = node->next;
        poller->func(poller);
    }
}

void fake_pass(fake_t *fake, int64_t ns)
{
    fake_now_ns += ns;
    fake_turn(fake);
}

void kvl_engine_post(kvl_engine_t *engine, kvl_work_t *work)
{
    kvl_inbox_push(&engine->inbox, &work->node);
}

void kvl_engine_add_poller(kvl_engine_t *engine, kvl_poller_t *poller)
{
    kvl_list_push_back(&engine->pollers, &poller->link);
}

void kvl_engine_remove_poller(kvl_engine_t *engine, kvl_poller_t *poller)
{
    (void)engine;
    kvl_list_remove(&poller->link);
}

void kvl_engine_enter(kvl_engine_t *engine)
{
    (void)engine;
}

void kvl_engine_leave(kvl_engine_t *engine)
{
    (void)engine;
}

void kvl_engine_add_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant)
{
    (void)engine;
    (void)tenant;
}

void kvl_engine_remove_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant)
{
    (void)engine;
    (void)tenant;
}

kvl_status_t kvl_engine_may_wait(kvl_engine_t *engine, const char *call)
{
    (void)engine;
    (void)call;
    return KVL_OK;
}

bool kvl_engine_may_end(kvl_engine_t *engine, const char *call)
{
    (void)engine;
    (void)call;
    return true;
}

bool kvl_engine_is_foreign(kvl_engine_t *engine, const char *call)
{
    (void)engine;
    (void)call;
    return false;
}

/* turns; time jumps to the next timer when nothing else is left to wait for */
bool kvl_engine_wait(kvl_engine_t *engine, _Atomic int *flag, int64_t until_ns)
{
    unsigned i;

    for (i = 0; i < 1000 && !atomic_load(flag) && fake_now_ns < until_ns; i++) {
        int64_t next = kvl_timers_next(&engine->timers);

        fake_turn(engine->fake);
        if (i > 10 && next != KVL_TIME_MAX && next > fake_now_ns && next <= until_ns) {
            fake_now_ns = next;
        }
    }
    return atomic_load(flag) != 0;
}

void kvl_engine_notify(kvl_engine_t *engine, bool event_fd)
{
    engine->fake->notified += event_fd;
}

const kvl_settings_t *kvl_engine_settings(const kvl_engine_t *engine)
{
    return &engine->fake->settings;
}

kvl_timers_t *kvl_engine_timers(kvl_engine_t *engine)
{
    return &engine->timers;
}

uint64_t kvl_engine_nonce(const kvl_engine_t *engine)
{
    (void)engine;
    return 0x1234500;
}

kvl_region_t *kvl_region_find(kvl_engine_t *engine, const void *address, size_t length)
{
    kvl_region_t *region = &engine->fake->region;
    uintptr_t at         = (uintptr_t)address - (uintptr_t)region->address;

    return at <= region->length && length <= region->length - at ? region : NULL;
}

unsigned kvl_engine_rails(const kvl_engine_t *engine)
{
    (void)engine;
    return 1;
}

/* of stages, which no test here has */
size_t kvl_mem_left(const kvl_mem_t *mem, const void *address)
{
    (void)mem;
    (void)address;
    return SIZE_MAX;
}
