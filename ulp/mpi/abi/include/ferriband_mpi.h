/* Counters of Ferriband's MPI: what of a rank's traffic took the RDMA fast path, and what memory that costs; and two settings that can be changed while it runs.
 * No part of MPI. Programs that ask so need not be linked with anything, and run with other MPI libraries, which have no such counters. */
#ifndef FERRIBAND_MPI_H
#define FERRIBAND_MPI_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and numbers of this rank. New members come at the end. */
struct ferriband_mpi_stats {
	uint64_t remote_peers; /* ranks that this one has a connection to */
	uint64_t channels_out; /* blocks of peers that this rank writes to now */
	uint64_t channels_in;  /* blocks of this rank that peers write to now */
	uint64_t memory;       /* bytes of fast-path memory in this process now: the next four */
	uint64_t blocks;       /* bytes of blocks */
	uint64_t mirrors;      /* bytes of copies of peers' blocks (top-fill designs) */
	uint64_t staging;      /* bytes of staging buffers that records have lain in */
	uint64_t returns;      /* bytes of words that take credit */
	uint64_t most;         /* the most bytes of blocks and mirrors at one time */
	uint64_t messages;     /* messages to other ranks by verbs */
	uint64_t fast;         /* those by the fast path */
	uint64_t no_channel;   /* not by it: there is no channel, */
	uint64_t paused;       /* the receiver sleeps, */
	uint64_t no_credit;    /* the block is full, */
	uint64_t too_long;     /* it is longer than a record, */
	uint64_t busy;         /* there is no room in a queue */
	uint64_t opened;       /* channels that were opened in all, */
	uint64_t closed;       /* and closed again, */
	uint64_t grown;        /* for a larger block */
	uint64_t refused;      /* blocks that were asked for and not given, by peers and by this rank */
	uint64_t pauses;       /* PAUSEs that this rank has sent before it slept */
	uint64_t moved;        /* long messages that were read from, or written or sent to, a peer */
	uint64_t log;          /* bytes of the logs of what is not acknowledged, beside the memory above */
	uint64_t log_full;     /* times that a message waited for room in a log */
	uint64_t bundled;      /* messages not by the fast path: they went together with others */
	uint64_t placed;       /* messages to ranks of this host that lay in memory which this rank had just read; not among the above */
	uint64_t host_peers;   /* ranks of this host that this one has sent something to, by memory that both share */
	uint64_t host_records; /* records to them, those of the two runtimes among them (which a long message has); to each modulo 2^32 */
	uint64_t landed;       /* of the long messages, those that another host's rank sent into the program's buffer */
	uint64_t heals;        /* connections by verbs that failed and were made anew */
	uint64_t heals_longest_ns; /* nanoseconds of the longest such heal, */
	uint64_t heals_total_ns;   /* and of all together */
	uint64_t healed_bytes; /* bytes that were sent again */
	uint64_t healing;      /* connections that are being made anew now */
	uint64_t migrations;   /* times that one went on by another path, to which its adapters went over by themselves */
};

/* A connection by verbs that failed and was made anew. New members come at the end. */
struct ferriband_mpi_heal {
	uint64_t peer;         /* the rank at the other end, in MPI_COMM_WORLD */
	uint64_t cause;        /* why: an enum ferriband_mpi_heal_cause */
	uint64_t at_ms;        /* when this rank noticed: milliseconds since 1970 */
	uint64_t detect_ns;    /* from the peer's notice to this rank's, */
	uint64_t fence_ns;     /* to the end of the last fence: the queue pairs of before are destroyed, */
	uint64_t reconnect_ns; /* to the connection, */
	uint64_t replay_ns;    /* and until all that the peer had not taken was sent again */
	uint64_t bytes;        /* bytes that were sent again */
	uint64_t tries;        /* connections that were begun */
};

/* Why a connection failed. */
enum ferriband_mpi_heal_cause {
	FERRIBAND_MPI_HEAL_RETRY_EXCEEDED = 1, /* the peer's adapter did not answer */
	FERRIBAND_MPI_HEAL_RNR_EXCEEDED,       /* the peer took no message */
	FERRIBAND_MPI_HEAL_QP_ERROR,           /* a queue pair was in error */
	FERRIBAND_MPI_HEAL_DEVICE_FATAL,       /* the adapter failed */
	FERRIBAND_MPI_HEAL_PORT_DOWN,          /* the port went down */
	FERRIBAND_MPI_HEAL_ADDRESS_CHANGED,    /* the port got another address */
	FERRIBAND_MPI_HEAL_PKEY_CHANGED,       /* the partition keys became others */
	FERRIBAND_MPI_HEAL_CQ_ERROR,           /* the completion queue failed */
	FERRIBAND_MPI_HEAL_SRQ_ERROR,          /* the receive queue failed */
	FERRIBAND_MPI_HEAL_SILENCE,            /* nothing came by the path */
	FERRIBAND_MPI_HEAL_PEER,               /* the other end said so */
	FERRIBAND_MPI_HEAL_MESSAGE,            /* a message could not be carried */
	FERRIBAND_MPI_HEAL_VERB,               /* a verb failed */
	FERRIBAND_MPI_HEAL_WITHDRAWN,          /* a request was withdrawn while its message moved */
	FERRIBAND_MPI_HEAL_RETURN,             /* a better path came back */
	FERRIBAND_MPI_HEAL_LAUNCHER            /* the launcher said so */
};

/* Fills the counters between MPI_Init and MPI_Finalize; 0, or -1 if this is not Ferriband's MPI or it does not run. Members that the library does not know stay 0. */
static inline int ferriband_mpi_get_stats(struct ferriband_mpi_stats *stats)
{
	ptrdiff_t (*ask)(uint64_t *, size_t);
	/* In what is loaded: RTLD_DEFAULT, which only GNU sources may name. */
	void *found = dlsym(NULL, "ferriband_mpi_stats");

	memset(stats, 0, sizeof *stats);
	if (found == NULL)
		return -1;
	memcpy(&ask, &found, sizeof ask);
	return ask((uint64_t *)stats, sizeof *stats) < 0 ? -1 : 0;
}

/* Fills the last heals of this rank, `most` at the most and 32 at the most, the oldest of them first; how many, or -1 if this is not Ferriband's MPI or it does not
 * run. Members that the library does not know stay 0. */
static inline int ferriband_mpi_get_heals(struct ferriband_mpi_heal *heals, size_t most)
{
	ptrdiff_t (*ask)(uint64_t *, size_t, size_t);
	void *found = dlsym(NULL, "ferriband_mpi_heals");

	memset(heals, 0, most * sizeof *heals);
	if (found == NULL)
		return -1;
	memcpy(&ask, &found, sizeof ask);
	return (int)ask((uint64_t *)heals, sizeof *heals, most);
}

/* Changes a setting between MPI_Init and MPI_Finalize, for measurements that compare both values within one run: "acks" ("0", "1") or "design" ("variable-bottom",
 * "variable-top", "fixed-bottom", "fixed-top"). All ranks call it, when no message is on its way. For tests, any rank at any time: "queue-pairs" to "error" has its
 * connections by verbs fail. 0, or -1 if there is no such setting or value, or no Ferriband. */
static inline int ferriband_mpi_switch_setting(const char *name, const char *value)
{
	int (*change)(const char *, const char *);
	void *found = dlsym(NULL, "ferriband_mpi_switch");

	if (found == NULL)
		return -1;
	memcpy(&change, &found, sizeof change);
	return change(name, value);
}

#ifdef __cplusplus
}
#endif
#endif
