/*
 * satload saturates a pooler from one thread: it is the Postgres behind the pooler and all
 * of its clients in front at once, so that one core of load is enough for one core of
 * pooler and no second party blurs the measurement.
 *
 * The fake Postgres trusts everybody and answers, message by message, what a real one
 * would: the statement of `pgbench -S` gets its row, every other one a plausible answer.
 * The clients keep exactly one transaction in flight each.
 *
 * It listens on a port of 127.0.0.1 of its own choice, says "listening PORT", and then
 * obeys lines on standard input, one at a time, until that ends:
 *
 *   run POOLERPORT CLIENTS simple|extended|prepared WARMUP_MS MEASURE_MS
 *
 * answered by "begin" when the measured time starts and, when it is over, by
 * "end TRANSACTIONS SECONDS MEAN_US P50_US P99_US CPU_SECONDS MESSAGES READS", where
 * MESSAGES and READS are what reached the fake Postgres in that time. Then the clients take
 * their last answer, say goodbye, and "idle" ends the run. "error TEXT" ends everything.
 */
#define _GNU_SOURCE
#include "satload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 100000 }; /* latencies by the microsecond up to 0.1 s */

static struct conn *conns[MAX_FD];
static int epoll_fd;

/* The run in progress. */
static struct {
	enum { IDLE, WARMING, MEASURING, DRAINING } state;
	int clients, running;
	enum { SIMPLE, EXTENDED, PREPARED } mode;
	double begin, warm_until, end, cpu;
	long transactions, messages, reads;
	double latency_sum;
	unsigned bucket[BUCKETS + 1];
} run;

static unsigned char transaction[512], prepare[512];
static int transaction_len, prepare_len;

void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("error ", stdout);
	vprintf(format, args);
	fputs("\n", stdout);
	fflush(stdout);
	exit(1);
}

static double now_us(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* ---- messages ---- */

void put32(unsigned char *p, unsigned v)
{
	p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v;
}

unsigned get32(const unsigned char *p)
{
	return (unsigned)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

int frame(unsigned char *to, char type, const void *body, int len)
{
	to[0] = type;
	put32(to + 1, len + 4);
	memcpy(to + 5, body, len);
	return len + 5;
}

/* flush returns 0 when the pooler has gone and nobody is left to answer to. */
static int flush(int fd)
{
	int n = out_len, w = n > 0 ? write(fd, out, n) : 0;
	out_len = 0;
	if (w < 0 && (errno == EPIPE || errno == ECONNRESET))
		return 0;
	if (w != n)
		fail("the pooler does not take the answers: %s", strerror(errno));
	return 1;
}

static void send_all(int fd, const void *b, int len)
{
	if (write(fd, b, len) != len)
		fail("the pooler does not take the requests: %s", strerror(errno));
}

/* ---- the clients ---- */

static void make_messages(void)
{
	static const char sql[] = "SELECT abalance FROM pgbench_accounts WHERE aid = 512345;";
	static const char sql1[] = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;";
	unsigned char b[256], *t = transaction;
	int n, named = run.mode == PREPARED;
	const char *name = named ? "P_0" : "";
	int name_len = strlen(name) + 1;

	transaction_len = prepare_len = 0;
	if (run.mode == SIMPLE) {
		transaction_len = frame(t, 'Q', sql, sizeof sql);
		return;
	}
	memcpy(b, name, name_len); /* Parse: no types given */
	memcpy(b + name_len, sql1, sizeof sql1);
	memset(b + name_len + sizeof sql1, 0, 2);
	n = frame(named ? prepare : t, 'P', b, name_len + sizeof sql1 + 2);
	if (named) {
		prepare_len = n + frame(prepare + n, 'S', "", 0);
		n = 0;
	}
	/* Bind: portal "", no formats, one value in text, no result formats */
	b[0] = 0;
	memcpy(b + 1, name, name_len);
	static const unsigned char rest[] = {0, 0, 0, 1, 0, 0, 0, 6, '5', '1', '2', '3', '4', '5', 0, 0};
	memcpy(b + 1 + name_len, rest, sizeof rest);
	n += frame(t + n, 'B', b, 1 + name_len + sizeof rest);
	n += frame(t + n, 'D', "P", 2);
	n += frame(t + n, 'E', "\0\0\0\0", 5);
	n += frame(t + n, 'S', "", 0);
	transaction_len = n;
}

static void count(struct conn *c, double t)
{
	double us = t - c->sent;

	if (run.state != MEASURING)
		return;
	run.transactions++;
	run.latency_sum += us;
	run.bucket[us < BUCKETS ? (int)us : BUCKETS]++;
}

/* on_ready is a client's ReadyForQuery: on with the next transaction. */
static void on_ready(struct conn *c)
{
	double t = now_us(CLOCK_MONOTONIC);
	if (c->role == CLIENT_LOGIN && prepare_len > 0) {
		c->role = CLIENT_PREPARE;
		send_all(c->fd, prepare, prepare_len);
		return;
	}
	if (c->role == CLIENT_RUN) {
		count(c, t);
	} else {
		c->role = CLIENT_RUN;
		run.running++;
	}
	if (run.state == DRAINING) {
		c->leaving = 1;
		return;
	}
	c->sent = t;
	send_all(c->fd, transaction, transaction_len);
}

/* error_text finds the message field of an ErrorResponse. */
static const char *error_text(const char *fields, int len)
{
	const char *end = fields + len;
	while (fields < end && *fields) {
		if (*fields == 'M')
			return fields + 1;
		fields += strlen(fields) + 1;
	}
	return "without a message";
}

static void on_client_message(struct conn *c, unsigned char *b, int len)
{
	if (b[0] == 'E') {
		b[len - 1] = 0;
		fail("a client got: %s", error_text((char *)b + 5, len - 5));
	}
	if (b[0] == 'R' && get32(b + 5) != 0)
		fail("the pooler asks its clients for a password");
	if (b[0] == 'Z')
		on_ready(c);
}

/* ---- connections ---- */

static struct conn *add(int fd, enum role role)
{
	int one = 1;
	struct conn *c;
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};

	if (fd >= MAX_FD || !(c = calloc(1, sizeof *c)))
		fail("too many connections");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	c->fd = fd;
	c->role = role;
	conns[fd] = c;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e))
		fail("epoll_ctl: %s", strerror(errno));
	return c;
}

static void drop(struct conn *c)
{
	if (c->role >= CLIENT_LOGIN && !c->leaving)
		fail("the pooler closed a client's connection");
	if (c->leaving && --run.running == 0) {
		run.state = IDLE;
		puts("idle");
		fflush(stdout);
	}
	close(c->fd);
	conns[c->fd] = NULL;
	free(c->statement);
	free(c);
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static void connect_client(int port)
{
	struct sockaddr_in a = loopback(port);
	static const char params[] = "user\0postgres\0database\0bench\0";
	unsigned char b[64];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
		fail("connecting to the pooler: %s", strerror(errno));
	put32(b, 8 + sizeof params);
	put32(b + 4, 196608);
	memcpy(b + 8, params, sizeof params);
	send_all(fd, b, 8 + sizeof params);
	add(fd, CLIENT_LOGIN);
}

/* on_message returns 0 when the connection is to be closed. */
static int on_message(struct conn *c, unsigned char *b, int len)
{
	unsigned char saved;
	int more;

	if (c->role == SERVER_STARTUP)
		return on_startup(c, b, len);
	if (c->role >= CLIENT_LOGIN) {
		on_client_message(c, b, len);
		return 1;
	}
	/* The byte behind the message may be the next one's: a terminator only for now. */
	run.messages++;
	saved = b[len];
	b[len] = 0;
	more = serve(c, b[0], (char *)b + 5);
	b[len] = saved;
	return more;
}

/* on_readable reads once: 1 something, -1 nothing, 0 the connection has gone. */
static int on_readable(struct conn *c)
{
	int o = 0, r = read(c->fd, c->in + c->len, IN_SIZE - 1 - c->len);

	if (r < 0 && errno == EAGAIN)
		return -1;
	if (r <= 0) {
		drop(c);
		return 0;
	}
	if (c->role == SERVER_READY)
		run.reads++;
	c->len += r;
	for (;;) {
		int head = c->role == SERVER_STARTUP ? 0 : 1, len;
		if (c->len - o < head + 4)
			break;
		len = get32(c->in + o + head) + head;
		if (len < head + 4 || len >= IN_SIZE || (head == 0 && len < 9 && len != 8))
			fail("a message of %d bytes", len);
		if (c->len - o < len)
			break;
		if (!on_message(c, c->in + o, len)) {
			out_len = 0;
			drop(c);
			return 0;
		}
		o += len;
	}
	memmove(c->in, c->in + o, c->len - o);
	c->len -= o;
	if (flush(c->fd) && !c->leaving)
		return 1;
	if (c->leaving)
		(void)!write(c->fd, "X\0\0\0\4", 5); /* a courtesy: it is closed in any case */
	drop(c);
	return 0;
}

/*
 * on_event: one read has all that came, unless the end came with it, which an
 * edge-triggered descriptor tells only once.
 */
static void on_event(struct conn *c, unsigned events)
{
	int more = on_readable(c);
	while (more == 1 && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		more = on_readable(c);
}

/* ---- runs ---- */

static void start_run(char *line)
{
	int port, clients, warm_ms, ms;
	char mode[16];

	if (sscanf(line, "run %d %d %15s %d %d", &port, &clients, mode, &warm_ms, &ms) != 5 || clients < 1)
		fail("not understood: %s", line);
	memset(&run, 0, sizeof run);
	run.mode = !strcmp(mode, "simple") ? SIMPLE : !strcmp(mode, "extended") ? EXTENDED : PREPARED;
	make_messages();
	for (int i = 0; i < clients; i++)
		connect_client(port);
	run.state = WARMING;
	run.clients = clients;
	run.begin = now_us(CLOCK_MONOTONIC);
	run.warm_until = run.begin + warm_ms * 1e3;
	run.end = ms * 1e3; /* from the end of the warm-up */
}

static double quantile(double q)
{
	long want = (long)(run.transactions * q), seen = 0;
	for (int i = 0; i <= BUCKETS; i++)
		if ((seen += run.bucket[i]) > want)
			return i + 0.5;
	return BUCKETS;
}

static void end_run(double t)
{
	double cpu = now_us(CLOCK_PROCESS_CPUTIME_ID) - run.cpu, mean = run.latency_sum / (run.transactions ? run.transactions : 1);

	printf("end %ld %.6f %.2f %.1f %.1f %.6f %ld %ld\n", run.transactions, (t - run.begin) / 1e6, mean,
	       quantile(.5), quantile(.99), cpu / 1e6, run.messages, run.reads);
	fflush(stdout);
	run.state = DRAINING;
}

/* tick looks whether the warm-up or the run is over. */
static void tick(void)
{
	double t = now_us(CLOCK_MONOTONIC);
	if (run.state == MEASURING && t >= run.end)
		end_run(t);
	if (run.state != WARMING || t < run.warm_until)
		return;
	if (run.running < run.clients) {
		if (t > run.warm_until + 10e6)
			fail("only %d of %d clients had an answer", run.running, run.clients);
		return;
	}
	run.state = MEASURING;
	run.end += t;
	run.begin = t;
	run.cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
	run.messages = run.reads = 0;
	puts("begin");
	fflush(stdout);
}

static void on_command(void)
{
	char line[256];
	if (!fgets(line, sizeof line, stdin))
		exit(0);
	if (run.state != IDLE)
		fail("one run at a time");
	start_run(line);
}

static int listen_somewhere(void)
{
	struct sockaddr_in a = loopback(0);
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1024) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		fail("listening: %s", strerror(errno));
	printf("listening %d\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

int main(void)
{
	struct epoll_event ev[256], e = {.events = EPOLLIN};
	int listener;

	signal(SIGPIPE, SIG_IGN);
	listener = listen_somewhere();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	e.data.fd = listener;
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
	e.data.fd = STDIN_FILENO;
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &e);
	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		int n = epoll_wait(epoll_fd, ev, 256, 50);
		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd, s;
			if (fd == STDIN_FILENO)
				on_command();
			else if (fd != listener && conns[fd])
				on_event(conns[fd], ev[i].events);
			else if (fd == listener)
				while ((s = accept(listener, NULL, NULL)) >= 0)
					add(s, SERVER_STARTUP);
		}
		tick();
	}
}
