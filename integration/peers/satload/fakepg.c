/* The fake Postgres: answers by the message, for one connection at a time. */
#include "satload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

unsigned char out[OUT_SIZE];
int out_len;

static void answer(char type, const void *body, int len)
{
	if (out_len + len + 5 > OUT_SIZE)
		fail("too much to answer at once");
	out_len += frame(out + out_len, type, body, len);
}

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

int serve(struct conn *c, char type, const char *body)
{
	struct statement *s;
	enum kind kind;

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

int on_startup(struct conn *c, unsigned char *b, int len)
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
