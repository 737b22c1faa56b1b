/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace kvlane_nixl {

namespace {

std::string text_of(const sockaddr *address)
{
    char text[INET6_ADDRSTRLEN] = "";

    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, text, sizeof(text));
    } else if (address->sa_family == AF_INET6) {
        const in6_addr *in6 = &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;

        if (!IN6_IS_ADDR_LINKLOCAL(in6) && inet_ntop(AF_INET6, in6, text, sizeof(text))) {
            return std::string("[") + text + "]";
        }
        return "";
    }
    return text;
}

/* an address of the interface, IPv4 before IPv6; "" if it has none or there is no such interface */
std::string of_interface(const std::string &name)
{
    ifaddrs *all = nullptr;
    std::string found;

    if (getifaddrs(&all)) {
        return "";
    }
    for (const ifaddrs *one = all; one; one = one->ifa_next) {
        if (one->ifa_addr && name == one->ifa_name && (one->ifa_flags & IFF_UP) &&
            (found.empty() || one->ifa_addr->sa_family == AF_INET)) {
            std::string text = text_of(one->ifa_addr);

            found = text.empty() ? found : text;
        }
    }
    freeifaddrs(all);
    return found;
}

/* the source address that the kernel takes for the default route; nothing is sent */
std::string of_default_route()
{
    sockaddr_in to = {}, from = {};
    socklen_t length = sizeof(from);
    std::string text;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    to.sin_family = AF_INET;
    to.sin_port   = htons(9);
    inet_pton(AF_INET, "192.0.2.1", &to.sin_addr); /* of documentation: nobody's */
    if (fd >= 0 && !connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof(to)) &&
        !getsockname(fd, reinterpret_cast<sockaddr *>(&from), &length)) {
        text = text_of(reinterpret_cast<sockaddr *>(&from));
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

/* without a default route: an interface that is not the loopback */
std::string of_any_interface()
{
    ifaddrs *all = nullptr;
    std::string found;

    if (getifaddrs(&all)) {
        return "";
    }
    for (const ifaddrs *one = all; one && found.empty(); one = one->ifa_next) {
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) &&
            !(one->ifa_flags & IFF_LOOPBACK)) {
            found = text_of(one->ifa_addr);
        }
    }
    freeifaddrs(all);
    return found;
}

std::string by_itself(const char *rails)
{
    std::istringstream names(rails ? rails : "");
    std::string name, host;

    while (host.empty() && std::getline(names, name, ',')) {
        host = of_interface(name);
    }
    host = host.empty() ? of_default_route() : host;
    host = host.empty() ? of_any_interface() : host;
    return host.empty() ? "127.0.0.1" : host;
}

/* "host:port", "[v6]:port"; a bare IPv6 address has several colons and no port */
void split(const std::string &wanted, std::string &host, std::string &port)
{
    size_t colon   = wanted.rfind(':');
    bool bare_ipv6 = wanted[0] != '[' && colon != wanted.find(':');

    host = wanted;
    port = "0";
    if (colon != std::string::npos && !bare_ipv6 && wanted.find(']', colon) == std::string::npos) {
        host = wanted.substr(0, colon);
        port = wanted.substr(colon + 1);
    }
    if (bare_ipv6) {
        host = "[" + wanted + "]";
    }
}

} /* namespace */

bool listen_address(const std::string &wanted, const char *rails, std::string &out, std::string &why)
{
    std::string host, port = "0";

    if (wanted.empty()) {
        out = by_itself(rails) + ":0";
        return true;
    }
    split(wanted, host, port);
    if (host.empty() || host == "*" || host == "0.0.0.0" || host == "[::]") {
        why = "option address: \"" + wanted + "\" tells other hosts nothing; give an address of this host "
              "that they reach, or the name of an interface";
        return false;
    }
    std::string of_name = of_interface(host);
    out = (of_name.empty() ? host : of_name) + ":" + port;
    return true;
}

} /* namespace kvlane_nixl */
