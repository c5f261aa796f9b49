/* libpq itself, with its pipeline mode: one connection a process. See ../doc.go. */
#include <libpq-fe.h>
#include <libpq/libpq-fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static PGconn *conn;
static char pool[2000];
static int number;           /* of the connection in what is printed */
static int alone;            /* it is not of the pool */
static char notices[4000];
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;

static void put(const char *s)
{
	if (s == NULL) {
		fputs("\\N", stdout);
		return;
	}
	for (; *s; s++) {
		switch (*s) {
		case '\\': fputs("\\\\", stdout); break;
		case '\t': fputs("\\t", stdout); break;
		case '\n': fputs("\\n", stdout); break;
		case '\r': fputs("\\r", stdout); break;
		default: putchar(*s);
		}
	}
}

/* line prints a line of so many fields. */
static void line(int n, const char **fields)
{
	printf("%d", number);
	for (int i = 0; i < n; i++) {
		putchar('\t');
		put(fields[i]);
	}
	putchar('\n');
}

static void say(const char *kind, const char *text)
{
	const char *fields[] = {kind, text};
	line(text ? 2 : 1, fields);
}

/* decode takes the escapes out of a field, in its place; NULL for \N. */
static char *decode(char *s)
{
	char *to = s;
	if (strcmp(s, "\\N") == 0)
		return NULL;
	for (char *from = s; *from; from++) {
		if (*from == '\\' && from[1]) {
			from++;
			*to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from == 'r' ? '\r' : *from;
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
	return s;
}

static void failed(const PGresult *r)
{
	const char *code = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
	const char *detail = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL) : NULL;
	const char *hint = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_HINT) : NULL;
	const char *fields[] = {"error", code ? code : "",
		code ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : conn ? PQerrorMessage(conn) : "no connection",
		detail ? detail : "", hint ? hint : ""};
	line(5, fields);
}

static void result(PGresult *r)
{
	switch (PQresultStatus(r)) {
	case PGRES_TUPLES_OK:
		for (int i = 0; i < PQntuples(r); i++) {
			const char *fields[MOST] = {"row"};
			int n = PQnfields(r);
			for (int j = 0; j < n; j++)
				fields[j + 1] = PQgetisnull(r, i, j) ? NULL : PQgetvalue(r, i, j);
			line(n + 1, fields);
		}
		/* fall through */
	case PGRES_COMMAND_OK:
		say("end", PQcmdStatus(r));
		break;
	case PGRES_EMPTY_QUERY:
		say("end", "");
		break;
	case PGRES_PIPELINE_ABORTED:
		say("row", "skipped");
		break;
	default:
		failed(r);
	}
	PQclear(r);
}

static void all(int sent)
{
	PGresult *r;
	if (!sent)
		failed(NULL);
	while ((r = PQgetResult(conn)) != NULL)
		result(r);
}

static void hear(void *arg, const char *text)
{
	(void) arg;
	snprintf(notices + strlen(notices), sizeof notices - strlen(notices), "%.*s\n", (int) strcspn(text, "\n"), text);
}

/* dial connects with "key=value" options. */
static void dial(int n, char **args)
{
	char dsn[2000] = "sslmode=disable";
	for (int i = 0; i < n; i++) {
		char *value = strchr(args[i], '=') + 1;
		int key = (int) (value - args[i]) - 1;
		char *end = dsn + strlen(dsn);
		size_t left = sizeof dsn - strlen(dsn);
		if (strncmp(args[i], "tz", key) == 0)
			snprintf(end, left, " options='-c TimeZone=%s'", value);
		else if (strncmp(args[i], "enc", key) == 0)
			snprintf(end, left, " client_encoding='%s'", value);
		else if (strncmp(args[i], "size", key) != 0 && strncmp(args[i], "cache", key) != 0)
			snprintf(end, left, " %.*s='%s'", key == 8 && args[i][0] == 'd' ? 6 : key, key == 8 && args[i][0] == 'd' ? "dbname" : args[i], value);
	}
	conn = PQconnectdb(dsn);
	if (PQstatus(conn) != CONNECTION_OK) {
		failed(NULL);
		PQfinish(conn);
		conn = NULL;
		return;
	}
	PQsetNoticeProcessor(conn, hear, NULL);
}

/* reopen takes the connection that was kept, unless it is lost. */
static void reopen(void)
{
	char copy[sizeof pool], *args[MOST], *rest = copy;
	int n = 0;
	if (conn && PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE)
		return;
	if (conn)
		PQfinish(conn);
	strcpy(copy, pool);
	while ((args[n] = strsep(&rest, "\t")) != NULL)
		n++;
	dial(n, args);
}

static void copy_in(const char *sql, const char *text)
{
	PGresult *r = PQexec(conn, sql);
	if (PQresultStatus(r) != PGRES_COPY_IN) {
		result(r);
		return;
	}
	PQclear(r);
	PQputCopyData(conn, text, (int) strlen(text));
	PQputCopyEnd(conn, NULL);
	all(1);
}

static void copy_out(const char *sql)
{
	char *row;
	int n;
	PGresult *r = PQexec(conn, sql);
	if (PQresultStatus(r) != PGRES_COPY_OUT) {
		result(r);
		return;
	}
	PQclear(r);
	while ((n = PQgetCopyData(conn, &row, 0)) > 0) {
		row[n - 1] = 0;
		say("row", row);
		PQfreemem(row);
	}
	all(1);
}

static void lo_write_text(const char *text)
{
	char number[20];
	Oid oid = lo_create(conn, 0);
	int fd = lo_open(conn, oid, INV_WRITE);
	if (fd < 0 || lo_write(conn, fd, text, strlen(text)) < 0) {
		failed(NULL);
		return;
	}
	lo_close(conn, fd);
	snprintf(number, sizeof number, "%u", oid);
	say("row", number);
}

static void lo_read_all(const char *oid)
{
	static char text[1 << 20];
	int n, fd = lo_open(conn, (Oid) strtoul(oid, NULL, 10), INV_READ);
	if (fd < 0) {
		/* libpq has the message only */
		const char *fields[] = {"error", strstr(PQerrorMessage(conn), "does not exist") ? "42704" : "", PQerrorMessage(conn), "", ""};
		line(5, fields);
		return;
	}
	n = lo_read(conn, fd, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	lo_close(conn, fd);
	say("row", text);
}

/* pipeline sends all of it with one Sync, and reads then. */
static void pipeline(int n, char **args)
{
	int done = 0;
	PQenterPipelineMode(conn);
	for (int i = 0; i < n; i++)
		PQsendQueryParams(conn, args[i], 0, NULL, NULL, NULL, NULL, i % 2);
	PQpipelineSync(conn);
	while (!done && PQstatus(conn) == CONNECTION_OK) {
		PGresult *r = PQgetResult(conn);
		if (r == NULL)
			continue; /* the end of one statement */
		if (PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
			PQclear(r);
			done = 1;
		} else if (PQresultStatus(r) == PGRES_TUPLES_OK && PQbinaryTuples(r)) {
			say("row", "binary");
			PQclear(r);
		} else {
			result(r);
		}
	}
	PQexitPipelineMode(conn);
}

static void types(void)
{
	static char every[256];
	const char *values[14] = {NULL, "t", "-2147483648", "9223372036854775807", "1.5", "12345678901234567890.123456789", "\xc3\xa9\t'\\", "",
		every, "2024-02-29 12:34:56.789012+00", "0001-01-01", "{1,NULL,3}", "{\"a\": [1, null]}", "00000000-0000-0000-0000-000000000005"};
	int lengths[14] = {0}, formats[14] = {0};
	const char *sql = "select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, "
		"$10::timestamptz, $11::date, $12::int[], $13::jsonb, $14::uuid";
	for (int i = 0; i < 256; i++)
		every[i] = (char) i;
	lengths[8] = sizeof every;
	formats[8] = 1;
	result(PQexecParams(conn, sql, 14, NULL, values, lengths, formats, 0));
	PGresult *r = PQexecParams(conn, sql, 14, NULL, values, lengths, formats, 1);
	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		result(r);
		return;
	}
	for (int j = 0; j < PQnfields(r); j++) {
		char hex[1000] = "";
		for (int k = 0; k < PQgetlength(r, 0, j); k++)
			sprintf(hex + 2 * k, "%02x", (unsigned char) PQgetvalue(r, 0, j)[k]);
		say("row", PQgetisnull(r, 0, j) ? NULL : hex);
	}
	PQclear(r);
}

static void tell_notices(void)
{
	for (char *rest = notices, *text; (text = strsep(&rest, "\n")) != NULL;)
		if (*text)
			say("notice", text);
	notices[0] = 0;
}

static void simple(const char *format, const char *name)
{
	char sql[1000];
	snprintf(sql, sizeof sql, format, name);
	result(PQexec(conn, sql));
}

static void carry_out(const char *verb, int n, char **args)
{
	const char *const *values = (const char *const *) args + 1;
	if (strcmp(verb, "connect") == 0) {
		alone = 1;
		dial(n, args);
	} else if (strcmp(verb, "open") == 0) {
		alone = 0;
		reopen();
	} else if (strcmp(verb, "pool") == 0) {
		pool[0] = 0;
		for (int i = 0; i < n; i++)
			snprintf(pool + strlen(pool), sizeof pool - strlen(pool), "%s%s", i ? "\t" : "", args[i]);
		if (conn)
			PQfinish(conn);
		conn = NULL;
	} else if (conn == NULL) {
		failed(NULL);
	} else if (strcmp(verb, "close") == 0) {
		if (alone) {
			PQfinish(conn);
			conn = NULL;
		}
	} else if (strcmp(verb, "query") == 0 || strcmp(verb, "long") == 0) {
		result(PQexecParams(conn, args[0], n - 1, NULL, values, NULL, NULL, 0));
	} else if (strcmp(verb, "exec") == 0) {
		all(PQsendQuery(conn, args[0]));
	} else if (strcmp(verb, "prepare") == 0) {
		result(PQprepare(conn, args[0], args[1], 0, NULL));
	} else if (strcmp(verb, "run") == 0) {
		result(PQexecPrepared(conn, args[0], n - 1, values, NULL, NULL, 0));
	} else if (strcmp(verb, "copyin") == 0) {
		copy_in(args[0], args[1]);
	} else if (strcmp(verb, "copyout") == 0) {
		copy_out(args[0]);
	} else if (strcmp(verb, "lowrite") == 0) {
		lo_write_text(args[0]);
	} else if (strcmp(verb, "loread") == 0) {
		lo_read_all(args[0]);
	} else if (strcmp(verb, "pipeline") == 0) {
		pipeline(n, args);
	} else if (strcmp(verb, "notices") == 0) {
		notices[0] = 0;
		all(PQsendQuery(conn, args[0]));
		tell_notices();
	} else if (strcmp(verb, "types") == 0) {
		types();
	} else if (strcmp(verb, "ping") == 0) {
		result(PQexec(conn, ""));
	} else if (strcmp(verb, "begin") == 0) {
		simple(n ? "begin isolation level %s" : "begin", n ? args[0] : "");
	} else if (strcmp(verb, "commit") == 0 || strcmp(verb, "rollback") == 0) {
		simple("%s", verb);
	} else {
		say("no", NULL);
	}
}

/* cancel is carried out beside what runs. */
static void cancel(void)
{
	char why[256] = "";
	PGcancel *c = PQgetCancel(conn);
	if (!PQcancel(c, why, sizeof why))
		fprintf(stderr, "cancel: %s\n", why);
	PQfreeCancel(c);
}

struct command {
	char *text;
	struct command *next;
};

static struct command *first, *last;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static void *work(void *arg)
{
	for (;;) {
		char *args[MOST], *rest;
		int n = 0;
		pthread_mutex_lock(&mu);
		while (first == NULL)
			pthread_cond_wait(&more, &mu);
		struct command *c = first;
		first = c->next;
		pthread_mutex_unlock(&mu);
		rest = c->text;
		number = atoi(strsep(&rest, "\t"));
		char *verb = strsep(&rest, "\t"), *field;
		while (n < MOST && (field = strsep(&rest, "\t")) != NULL)
			args[n++] = decode(field);
		carry_out(verb, n, args);
		pthread_mutex_lock(&out);
		printf("%d\tdone\n", number);
		fflush(stdout);
		pthread_mutex_unlock(&out);
		free(c->text);
		free(c);
	}
	return arg;
}

int main(void)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t n;
	pthread_t worker;
	pthread_create(&worker, NULL, work, NULL);
	while ((n = getline(&text, &room, stdin)) > 0) {
		if (text[n - 1] == '\n')
			text[n - 1] = 0;
		if (strstr(text, "\tcancel\t")) {
			cancel();
			pthread_mutex_lock(&out);
			printf("%d\tdone\n", atoi(text));
			fflush(stdout);
			pthread_mutex_unlock(&out);
			continue;
		}
		struct command *c = malloc(sizeof *c);
		c->text = strdup(text);
		c->next = NULL;
		pthread_mutex_lock(&mu);
		if (first == NULL)
			first = c;
		else
			last->next = c;
		last = c;
		pthread_cond_signal(&more);
		pthread_mutex_unlock(&mu);
	}
	return 0;
}
