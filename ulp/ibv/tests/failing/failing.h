/* What the failing libraries share, and what programs that test by them call. */
#ifndef FAILING_H
#define FAILING_H

/* Call number `at` of a function, or of any if `name` is NULL, fails from now on, counted from 1;
 * 0: none. */
void failing_arm(long at, const char *name);

/* The call that has failed since; NULL: there were not so many. */
const char *failing_name(void);

/* How many send requests of this opcode were posted. */
long failing_posted(unsigned opcode);

/* Objects that were made and not taken back: what is open, allocated, registered, events that are
 * not acknowledged. */
long failing_alive(void);

/* So many more are alive. */
void failing_counts(int change);

/* The hosts of all peers are gone, as far as RDMA WRITEs find from now on: they fail as where
 * nobody answers. Messages before that seem to have arrived. */
void failing_gone(void);

/* Counts a call; whether it shall fail. */
int failing_now(const char *name);

/* What a call that fails returns: -1, for which errno says why, or an errno. The plan says which,
 * else it is ENOMEM, or `usual` where that is an errno. */
int failing_returns(int usual);

/* Counts what this device does by itself, too. */
struct ibv_context;
void failing_watch(struct ibv_context *context);

/* Whether a descriptor can be read. */
int failing_has_news(int fd);

/* A function of the library that does the work. */
void *failing_real(void **library, const char *file, const char *name, const char *node);

#endif
