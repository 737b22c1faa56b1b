/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/client.h"
#include "tools/doctor.h"

#include <stdio.h>
#include <string.h>

/* What KVLANE_RAILS really gives: an engine is made as it is set, and asked what it chose. */

const char *kvl_doctor_text(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text ? text : "";
}

const char *kvl_doctor_first_rail(const json_t *decision)
{
    const json_t *choice = json_array_get(json_object_get(decision, "choices"), 0);

    return strcmp(kvl_doctor_text(choice, "verdict"), "used") == 0 ? kvl_doctor_text(choice, "rail")
                                                                   : "";
}

/* the network rails that are used, or, with @a spare, could be */
static unsigned count_rails(const json_t *decision, bool spare)
{
    const json_t *choice;
    size_t i;
    unsigned count = 0;

    json_array_foreach(json_object_get(decision, "choices"), i, choice)
    {
        const char *verdict = kvl_doctor_text(choice, "verdict");

        count += strcmp(kvl_doctor_text(choice, "kind"), "shm") != 0 &&
                 (strcmp(verdict, "used") == 0 || (spare && strcmp(verdict, "spare") == 0));
    }
    return count;
}

static void list_used(const json_t *decision, char *text, size_t size)
{
    const json_t *choice;
    size_t i, used = 0;

    snprintf(text, size, "none");
    json_array_foreach(json_object_get(decision, "choices"), i, choice)
    {
        if (strcmp(kvl_doctor_text(choice, "verdict"), "used") == 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     kvl_doctor_text(choice, "rail"));
        }
    }
}

static kvl_finding_t decision_finding(const json_t *decision)
{
    bool degraded    = json_is_true(json_object_get(decision, "degraded"));
    const char *note = kvl_doctor_text(decision, "note");
    char list[512];

    list_used(decision, list, sizeof(list));
    return kvl_finding(degraded ? KVL_FOUND_WARN : KVL_FOUND_OK, "rails",
                       degraded ? "kvlane_info -s says why each rail is used or not" : NULL,
                       "KVLANE_RAILS=%.100s, KVLANE_AFFINITY=%s gives %s (of %zu)%s%s",
                       kvl_doctor_text(decision, "rails"), kvl_doctor_text(decision, "affinity"),
                       list, json_array_size(json_object_get(decision, "choices")),
                       note[0] ? ": " : "", note);
}

static kvl_finding_t engine_finding(kvl_doctor_t *doctor, kvl_engine_t *engine)
{
    json_t *json     = kvl_tool_engine_json(engine);
    json_t *decision = json_object_get(json, "decision");
    kvl_finding_t finding;

    doctor->started = true;
    if (json_is_object(decision)) {
        finding = decision_finding(decision);
        /* of several, each can be tried alone: by rank */
        doctor->rails = count_rails(decision, false) > 1 ? count_rails(decision, true) : 1;
    } else {
        finding             = kvl_finding(KVL_FOUND_OK, "rails", NULL,
                                          "left to UCX by its own settings TLS or NET_DEVICES");
        doctor->left_to_ucx = true;
    }
    json_decref(json);
    return finding;
}

void kvl_doctor_rails(kvl_doctor_t *doctor)
{
    kvl_tool_client_t client;
    kvl_finding_t finding;
    kvl_status_t status;

    if (doctor->too_few_files) {
        finding = kvl_finding(KVL_FOUND_FAIL, "rails", "see files",
                              "not tried: UCX may abort without files");
        kvl_doctor_say(doctor, &finding);
        return;
    }
    status = kvl_tool_open(&client, doctor->node, NULL);
    if (status == KVL_OK) {
        finding = engine_finding(doctor, client.engine);
    } else {
        finding = kvl_finding(KVL_FOUND_FAIL, "rails",
                              status == KVL_ERR_CONFIG
                                  ? "" /* the text says it */
                                  : "set KVLANE_RAILS to what there is, or bring the device up",
                              "%s", kvl_error_text());
    }
    kvl_tool_disconnect(&client);
    kvl_doctor_say(doctor, &finding);
}
