/* floor.c - the least that a server which answers from Perl can cost.
 *
 * A bare epoll loop per process: read, call a Perl sub, write. No HTTP parsing (a read that ends in
 * an empty line is a request), no headers for Perl, no time-outs. `make bench` measures
 * Drom against it.
 *
 * Usage: floor PORT PROCESSES
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>
#include <EXTERN.h>
#include <perl.h>

static PerlInterpreter *my_perl;

static int listen_on(int port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* as drom does on loopback */
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 511)) {
        perror("floor: listen");
        exit(1);
    }
    return fd;
}

static int answer(SV *handler, int fd)
{
    static char in[8192], out[8192];
    ssize_t got = read(fd, in, sizeof in);
    if (got <= 0 || got < 4 || memcmp(in + got - 4, "\r\n\r\n", 4))
        return -1;
    dSP;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    PUTBACK;
    int count = call_sv(handler, G_SCALAR | G_EVAL);
    SPAGAIN;
    STRLEN len = 0;
    const char *body = count ? SvPV(TOPs, len) : "";
    int head = snprintf(out, 4096, "HTTP/1.1 200 OK\r\n"
                        "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: floor\r\n"
                        "Content-Length: %zu\r\nContent-Type: text/plain\r\n\r\n", (size_t)len);
    memcpy(out + head, body, len);
    if (count)
        POPs;
    PUTBACK;
    FREETMPS;
    LEAVE;
    return write(fd, out, head + len) == (ssize_t)(head + len) ? 0 : -1;
}

static void serve(int listener, SV *handler)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listener }, ready[64];
    int epoll = epoll_create1(0), on = 1;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (fd < 0)
                    continue;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                ev.events = EPOLLIN;
                ev.data.fd = fd;
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
            } else if (answer(handler, fd) < 0) {
                close(fd);
            }
        }
    }
}

int main(int argc, char **argv, char **env)
{
    char *args[] = { "floor", "-e", "sub handler { return \"Hello, world!\\n\" } 1", NULL };
    if (argc < 3) {
        fprintf(stderr, "usage: floor PORT PROCESSES\n");
        return 2;
    }
    PERL_SYS_INIT3(&argc, &argv, &env);
    my_perl = perl_alloc();
    perl_construct(my_perl);
    if (perl_parse(my_perl, NULL, 3, args, NULL) || perl_run(my_perl))
        return 1;
    int listener = listen_on(atoi(argv[1]));
    SV *handler = (SV *)get_cv("main::handler", 0);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < atoi(argv[2]); i++)
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            break;
        }
    serve(listener, handler);
}
