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
 * MESSAGES and READS are what reached the fake Postgres in that time; or by "error TEXT",
 * after which it is over.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 65536, IN_SIZE = 16384, OUT_SIZE = 65536, MAX_STATEMENTS = 256, NAME_SIZE = 64 };
enum { BUCKETS = 100000 }; /* latencies by the microsecond up to 0.1 s */

enum role { SERVER_STARTUP, SERVER_READY, CLIENT_LOGIN, CLIENT_PREPARE, CLIENT_RUN };

/* What a statement answers with. */
enum kind { K_ROW, K_OTHER_ROW, K_SET, K_DISCARD, K_BEGIN, K_COMMIT, K_ROLLBACK };

struct statement {
	char name[NAME_SIZE];
	enum kind kind;
};

struct conn {
	int fd;
	enum role role;
	char status;                 /* fake server: what ReadyForQuery says */
	enum kind portal;            /* fake server: the last Bind's statement */
	int skipping;                /* fake server: after an error, until Sync */
	int statements;
	struct statement *statement; /* fake server: MAX_STATEMENTS of them */
	double sent;                 /* client: when its transaction went out, us */
	int len;
	unsigned char in[IN_SIZE];
};

static struct conn *conns[MAX_FD];
static int epoll_fd;
static unsigned char out[OUT_SIZE];
static int out_len;

/* The run in progress. */
static struct {
	int active, measuring, clients, running;
	enum { SIMPLE, EXTENDED, PREPARED } mode;
	double begin, warm_until, end, cpu;
	long transactions, messages, reads;
	double latency_sum;
	unsigned bucket[BUCKETS + 1];
} run;

static unsigned char transaction[512], prepare[512];
static int transaction_len, prepare_len;

static void fail(const char *format, ...)
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

static void put32(unsigned char *p, unsigned v)
{
	p[0] = v >> 24, p[1] = v >> 16, p[2] = v >> 8, p[3] = v;
}

static unsigned get32(const unsigned char *p)
{
	return (unsigned)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* frame writes one message and returns its length. */
static int frame(unsigned char *to, char type, const void *body, int len)
{
	to[0] = type;
	put32(to + 1, len + 4);
	memcpy(to + 5, body, len);
	return len + 5;
}

static void answer(char type, const void *body, int len)
{
	if (out_len + len + 5 > OUT_SIZE)
		fail("too much to answer at once");
	out_len += frame(out + out_len, type, body, len);
}

static void flush(int fd)
{
	if (out_len > 0 && write(fd, out, out_len) != out_len)
		fail("the pooler does not take the answers: %s", strerror(errno));
	out_len = 0;
}

static void send_all(int fd, const void *b, int len)
{
	if (write(fd, b, len) != len)
		fail("the pooler does not take the requests: %s", strerror(errno));
}

/* ---- the fake Postgres ---- */

static enum kind classify(const char *sql)
{
	sql += strspn(sql, " \t\r\n");
	if (!strncasecmp(sql, "select abalance", 15))
		return K_ROW;
	if (!strncasecmp(sql, "select", 6) || !strncasecmp(sql, "show", 4))
		return K_OTHER_ROW;
	if (!strncasecmp(sql, "discard", 7))
		return K_DISCARD;
	if (!strncasecmp(sql, "begin", 5) || !strncasecmp(sql, "start", 5))
		return K_BEGIN;
	if (!strncasecmp(sql, "commit", 6) || !strncasecmp(sql, "end", 3))
		return K_COMMIT;
	if (!strncasecmp(sql, "rollback", 8) || !strncasecmp(sql, "abort", 5))
		return K_ROLLBACK;
	return K_SET;
}

static void describe(enum kind kind)
{
	unsigned char b[64];
	const char *name = kind == K_ROW ? "abalance" : "set_config";
	int n = 2, len = strlen(name) + 1;

	if (kind != K_ROW && kind != K_OTHER_ROW) {
		answer('n', "", 0);
		return;
	}
	b[0] = 0, b[1] = 1;
	memcpy(b + n, name, len);
	n += len;
	memset(b + n, 0, 18);
	b[n + 9] = kind == K_ROW ? 23 : 25; /* int4, text */
	b[n + 11] = kind == K_ROW ? 4 : 0xff;
	if (kind != K_ROW)
		b[n + 10] = 0xff;
	memset(b + n + 12, 0xff, 4);
	answer('T', b, n + 18);
}

static void execute(struct conn *c, enum kind kind)
{
	static const unsigned char zero[] = {0, 1, 0, 0, 0, 1, '0'}, empty[] = {0, 1, 0, 0, 0, 0};
	static const char *tags[] = {"SELECT 1", "SELECT 1", "SET", "DISCARD ALL", "BEGIN", "COMMIT", "ROLLBACK"};

	if (kind == K_ROW)
		answer('D', zero, sizeof zero);
	if (kind == K_OTHER_ROW)
		answer('D', empty, sizeof empty);
	if (kind == K_BEGIN)
		c->status = 'T';
	if (kind == K_COMMIT || kind == K_ROLLBACK)
		c->status = 'I';
	if (kind == K_DISCARD)
		c->statements = 0;
	answer('C', tags[kind], strlen(tags[kind]) + 1);
}

static void refuse(struct conn *c, const char *code, const char *text)
{
	char b[256];
	int n = snprintf(b, sizeof b, "SERROR%cVERROR%cC%s%cM%s%c%c", 0, 0, code, 0, text, 0, 0);
	answer('E', b, n);
	c->skipping = 1;
}

static struct statement *find_statement(struct conn *c, const char *name)
{
	for (int i = 0; i < c->statements; i++)
		if (!strcmp(c->statement[i].name, name))
			return &c->statement[i];
	return NULL;
}

static void on_parse(struct conn *c, const char *name, const char *sql)
{
	struct statement *s = find_statement(c, name);
	if (s && *name) {
		refuse(c, "42P05", "prepared statement already exists");
		return;
	}
	if (!s) {
		if (c->statements == MAX_STATEMENTS || strlen(name) >= NAME_SIZE)
			fail("more prepared statements, or longer names, than foreseen");
		s = &c->statement[c->statements++];
		strcpy(s->name, name);
	}
	s->kind = classify(sql);
	answer('1', "", 0);
}

static void on_describe(struct conn *c, char what, const char *name)
{
	static const unsigned char one_int[] = {0, 1, 0, 0, 0, 23}, none[] = {0, 0};
	struct statement *s;

	if (what == 'P') {
		describe(c->portal);
		return;
	}
	if (!(s = find_statement(c, name))) {
		refuse(c, "26000", "prepared statement does not exist");
		return;
	}
	if (s->kind == K_ROW)
		answer('t', one_int, sizeof one_int);
	else
		answer('t', none, sizeof none);
	describe(s->kind);
}

static void on_close(struct conn *c, char what, const char *name)
{
	struct statement *s = what == 'S' ? find_statement(c, name) : NULL;
	if (s)
		*s = c->statement[--c->statements];
	answer('3', "", 0);
}

/* serve answers one message of the pooler; it returns 0 when that was a Terminate. */
static int serve(struct conn *c, char type, const char *body)
{
	struct statement *s;
	enum kind kind;

	run.messages++;
	if (c->skipping && type != 'S' && type != 'X')
		return 1;
	switch (type) {
	case 'Q':
		kind = classify(body);
		if (kind == K_ROW || kind == K_OTHER_ROW)
			describe(kind);
		execute(c, kind);
		answer('Z', &c->status, 1);
		return 1;
	case 'P':
		on_parse(c, body, body + strlen(body) + 1);
		return 1;
	case 'B':
		if (!(s = find_statement(c, body + strlen(body) + 1))) {
			refuse(c, "26000", "prepared statement does not exist");
			return 1;
		}
		c->portal = s->kind;
		answer('2', "", 0);
		return 1;
	case 'D':
		on_describe(c, body[0], body + 1);
		return 1;
	case 'E':
		execute(c, c->portal);
		return 1;
	case 'C':
		on_close(c, body[0], body + 1);
		return 1;
	case 'S':
		c->skipping = 0;
		answer('Z', &c->status, 1);
		return 1;
	case 'H':
		return 1;
	case 'X':
		return 0;
	}
	fail("the fake Postgres does not know message '%c'", type);
	return 0;
}

static void parameter(const char *name, const char *value)
{
	char b[512];
	int n = snprintf(b, sizeof b, "%s%c%s%c", name, 0, value, 0);
	if (n >= (int)sizeof b)
		fail("a startup parameter is too long");
	answer('S', b, n);
}

/* given is the value of a startup parameter, or else its default. */
static const char *given(const char *params, const char *end, const char *name, const char *otherwise)
{
	while (params < end && *params) {
		const char *value = params + strlen(params) + 1;
		if (value >= end)
			break;
		if (!strcasecmp(params, name))
			return value;
		params = value + strlen(value) + 1;
	}
	return otherwise;
}

static void log_in(struct conn *c, const char *params, const char *end, int minor)
{
	static const char *fixed[] = {
		"default_transaction_read_only", "off", "in_hot_standby", "off", "integer_datetimes", "on",
		"IntervalStyle", "postgres", "is_superuser", "on", "server_encoding", "UTF8",
		"server_version", "15.20", "session_authorization", "postgres",
		"standard_conforming_strings", "on", NULL};
	static const char *settable[] = {
		"application_name", "", "client_encoding", "UTF8", "DateStyle", "ISO, MDY", "TimeZone", "Etc/UTC", NULL};
	unsigned char b[8] = {0};

	if (minor > 0) /* newest minor version known: 0; no unknown options */
		answer('v', b, 8);
	answer('R', b, 4);
	for (int i = 0; fixed[i]; i += 2)
		parameter(fixed[i], fixed[i + 1]);
	for (int i = 0; settable[i]; i += 2)
		parameter(settable[i], given(params, end, settable[i], settable[i + 1]));
	put32(b, getpid()), put32(b + 4, c->fd);
	answer('K', b, 8);
	c->status = 'I';
	answer('Z', &c->status, 1);
	c->role = SERVER_READY;
	if (!(c->statement = malloc(MAX_STATEMENTS * sizeof *c->statement)))
		fail("out of memory");
}

/* on_startup handles an untyped message; it returns 0 when the connection is to be closed. */
static int on_startup(struct conn *c, unsigned char *b, int len)
{
	unsigned code = get32(b + 4);
	if (code == 80877102) /* CancelRequest: there is never anything to cancel */
		return 0;
	if (code == 80877103 || code == 80877104) { /* SSLRequest, GSSENCRequest */
		out[out_len++] = 'N';
		return 1;
	}
	if (code >> 16 != 3)
		fail("a server connection speaks protocol %u", code);
	b[len - 1] = 0;
	log_in(c, (char *)b + 8, (char *)b + len, code & 0xffff);
	return 1;
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
	if (!run.measuring)
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
	struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

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
	if (c->role >= CLIENT_LOGIN && run.active)
		fail("the pooler closed a client's connection");
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
	saved = b[len];
	b[len] = 0;
	more = serve(c, b[0], (char *)b + 5);
	b[len] = saved;
	return more;
}

static void on_readable(struct conn *c)
{
	int o = 0, r = read(c->fd, c->in + c->len, IN_SIZE - 1 - c->len);

	if (r < 0 && errno == EAGAIN)
		return;
	if (r <= 0) {
		drop(c);
		return;
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
			return;
		}
		o += len;
	}
	memmove(c->in, c->in + o, c->len - o);
	c->len -= o;
	flush(c->fd);
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
	run.active = 1;
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
	run.active = run.measuring = 0;
	for (int fd = 0; fd < MAX_FD; fd++)
		if (conns[fd] && conns[fd]->role >= CLIENT_LOGIN) {
			/* A transaction is in flight: an orderly end would need its answer. */
			drop(conns[fd]);
		}
}

/* tick looks whether the warm-up or the run is over. */
static void tick(void)
{
	double t = now_us(CLOCK_MONOTONIC);
	if (!run.active)
		return;
	if (run.measuring) {
		if (t >= run.end)
			end_run(t);
		return;
	}
	if (t < run.warm_until)
		return;
	if (run.running < run.clients) {
		if (t > run.warm_until + 10e6)
			fail("only %d of %d clients had an answer", run.running, run.clients);
		return;
	}
	run.measuring = 1;
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
	if (run.active)
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
	int listener = listen_somewhere();

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
				on_readable(conns[fd]);
			else if (fd == listener)
				while ((s = accept(listener, NULL, NULL)) >= 0)
					add(s, SERVER_STARTUP);
		}
		tick();
	}
}
