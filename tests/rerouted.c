/* One public address leads to a port of this machine (OHMO_REROUTED is ADDRESS:PORT=LOCAL), and names say
   to which address they lead: ip-10-0-0-1.example.net; rebind.example.net is first public, then 127.0.0.1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int descriptor, const struct sockaddr *to, socklen_t length) {
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    const char *told = getenv("OHMO_REROUTED");
    const struct sockaddr_in *there = (const struct sockaddr_in *)to;
    struct sockaddr_in here;
    char address[64];
    int port, local;
    if (told && to->sa_family == AF_INET &&
        sscanf(told, "%63[0-9.]:%d=%d", address, &port, &local) == 3 &&
        there->sin_addr.s_addr == inet_addr(address) && ntohs(there->sin_port) == port) {
        here = *there;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        here.sin_port = htons(local);
        return real(descriptor, (struct sockaddr *)&here, sizeof here);
    }
    return real(descriptor, to, length);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    static int asked;
    int a, b, c, d;
    char address[32];
    if (node && sscanf(node, "ip-%d-%d-%d-%d.", &a, &b, &c, &d) == 4) {
        snprintf(address, sizeof address, "%d.%d.%d.%d", a, b, c, d);
        return real(address, service, hints, found);
    }
    if (node && strncmp(node, "rebind.", 7) == 0)
        return real(__sync_fetch_and_add(&asked, 1) ? "127.0.0.1" : "93.184.215.14", service, hints, found);
    return real(node, service, hints, found);
}
