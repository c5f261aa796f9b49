/* What the parts of satload share. satload.c tells what it is. */
#ifndef SATLOAD_H
#define SATLOAD_H

enum { MAX_FD = 65536, IN_SIZE = 16384, OUT_SIZE = 65536, MAX_STATEMENTS = 256, NAME_SIZE = 64 };

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
	int leaving;                 /* client: it has its last answer */
	int statements;
	struct statement *statement; /* fake server: MAX_STATEMENTS of them */
	double sent;                 /* client: when its transaction went out, us */
	int len;
	unsigned char in[IN_SIZE];
};

/* fail says "error TEXT" on standard output and ends the process. */
void fail(const char *format, ...);

/* Numbers in network order. */
void put32(unsigned char *p, unsigned v);
unsigned get32(const unsigned char *p);

/* frame writes one message and returns its length. */
int frame(unsigned char *to, char type, const void *body, int len);

/* What is to be written to the pooler after this read. */
extern unsigned char out[OUT_SIZE];
extern int out_len;

/* on_startup handles an untyped message of the pooler, serve a typed one with its body ended
 * by a 0. Both append what is to be answered to out, and return 0 when the connection is to
 * be closed. */
int on_startup(struct conn *c, unsigned char *b, int len);
int serve(struct conn *c, char type, const char *body);

#endif
