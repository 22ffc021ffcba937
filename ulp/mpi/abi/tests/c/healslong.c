/* Long messages between pairs of ranks, and collectives, while queue pairs fail: contiguous
 * ones, such with gaps, several at once in both directions. Each byte is checked. ROUNDS in the
 * environment: how many times; SEED: when ranks have their connections fail; OUTSIDE: somebody
 * else has them fail, once this file is there, so no rank does; and it goes on until some have
 * failed. */
#include "check.h"
#include <ferriband_mpi.h>
#include <limits.h>
#include <unistd.h>

enum { SHORT = 64 << 10, LONG = 1 << 20, SEVERAL = 4, BLOCK = 1024 };

static int other, outside;
/* Calls of this round until the connections fail, and whose do: of the even ranks, of the odd ones,
 * or of all. */
static int left, whose;
static unsigned state = 1;
static unsigned char *sent[SEVERAL], *taken[SEVERAL];

/* True if the `length` bytes of message `message` of a round are those of `fill(.., salt)`. Else says
 * where the wrong ones begin and end, and of which other `salt` the first would be. */
static int has_come(const char *what, long round, int message, const unsigned char *bytes, long length, int salt)
{
	long first = -1, last = -1, wrong = 0;
	for (long at = 0; at < length; at++) {
		if (bytes[at] == pattern(at, salt))
			continue;
		first = first < 0 ? at : first;
		last = at;
		wrong++;
	}
	if (wrong == 0)
		return 1;
	fprintf(stderr,
		"healslong: rank %d, round %ld, %s, message %d of %ld B: %ld B are wrong, from %ld to %ld: %d where %d is due "
		"(salt %d where %d is due), then %d where %d is due\n",
		rank, round, what, message, length, wrong, first, last, bytes[first], pattern(first, salt),
		(unsigned char)(bytes[first] - pattern(first, 0)), (unsigned char)salt, bytes[last], pattern(last, salt));
	return 0;
}

/* From 0 to before `below`, the same at all ranks. */
static int any(unsigned below)
{
	state = state * 1664525 + 1013904223;
	return (int)(((unsigned long long)state * below) >> 32);
}

/* Perhaps the connections of this rank fail here. */
static void next(void)
{
	if (left-- == 0 && whose != rank % 2 && !outside)
		CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
}

/* Messages may move a little. */
static void look(int times)
{
	int flag;
	for (int i = 0; i < times; i++)
		CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag);
	next();
}

/* `count` messages of `length` bytes and one of 8 behind each, from the one side, the other, or
 * both ways at once; the receives before the sends or behind them. */
static void together(long round, int count, int length)
{
	MPI_Request requests[4 * SEVERAL];
	long words[SEVERAL], heard[SEVERAL];
	int sends = round % 3 != rank % 2, receives = round % 3 == 2 || !sends, early = any(2), pause = any(40);
	int used = 0;
	/* A message lies elsewhere than the one before that may have had its name. */
	unsigned char *first = sent[0];
	memmove(sent, sent + 1, (SEVERAL - 1) * sizeof *sent);
	sent[SEVERAL - 1] = first;
	for (int half = 0; half < 2; half++) {
		for (int i = 0; receives && half != early && i < count; i++) {
			memset(taken[i], 0, length);
			CHECK(MPI_Irecv(taken[i], length, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
			CHECK(MPI_Irecv(&heard[i], 1, MPI_LONG, other, 4, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
			look(pause);
		}
		for (int i = 0; sends && half == early && i < count; i++) {
			fill(sent[i], length, (int)(round + i + 1));
			words[i] = round * 10 + i;
			CHECK(MPI_Isend(sent[i], length, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
			CHECK(MPI_Isend(&words[i], 1, MPI_LONG, other, 4, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
			look(pause);
		}
	}
	for (int i = 0; i < 3; i++)
		look(pause);
	CHECK(MPI_Waitall(used, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; receives && i < count; i++) {
		CHECK(has_come("several", round, i, taken[i], length, (int)(round + i + 1)));
		CHECK(heard[i] == round * 10 + i);
	}
}

/* A message whose elements lie with gaps, at one side or at both. */
static void with_gaps(long round)
{
	MPI_Datatype gaps;
	MPI_Request requests[2];
	int count = SHORT / BLOCK, sparse_send = round % 3 != 0, sparse_receive = round % 3 != 1;
	CHECK(MPI_Type_vector(count, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps) == MPI_SUCCESS);
	CHECK(MPI_Type_commit(&gaps) == MPI_SUCCESS);
	fill(sent[0], 2 * SHORT, (int)round + 1);
	memset(taken[0], 0, 2 * SHORT);
	CHECK(MPI_Irecv(taken[0], sparse_receive ? 1 : SHORT, sparse_receive ? gaps : MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
	look(any(20));
	CHECK(MPI_Isend(sent[0], sparse_send ? 1 : SHORT, sparse_send ? gaps : MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
	look(any(20));
	look(any(20));
	CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (long i = 0; i < SHORT; i++) {
		long from = sparse_send ? i / BLOCK * 2 * BLOCK + i % BLOCK : i;
		long to = sparse_receive ? i / BLOCK * 2 * BLOCK + i % BLOCK : i;
		if (taken[0][to] != sent[0][from])
			fprintf(stderr, "healslong: rank %d, round %ld, with gaps: byte %ld is %d where %d is due\n", rank, round, i, taken[0][to], sent[0][from]);
		CHECK(taken[0][to] == sent[0][from]);
	}
	for (long i = 0; sparse_receive && i + BLOCK < SHORT; i += BLOCK)
		CHECK(taken[0][2 * i + BLOCK] == 0);
	CHECK(MPI_Type_free(&gaps) == MPI_SUCCESS);
}

/* All ranks together. */
static void collectives(long round)
{
	int *mine = (int *)sent[0], *all = (int *)taken[0], count = SHORT / (int)sizeof(int);
	for (int i = 0; i < count; i++)
		mine[i] = (int)round + i * (rank + 1);
	next();
	CHECK(MPI_Allreduce(mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == (int)round * size + i * (size * (size + 1) / 2));
	for (int to = 0; to < size; to++)
		fill(sent[1] + to * SHORT, SHORT, (int)round + rank * size + to);
	next();
	CHECK(MPI_Alltoall(sent[1], SHORT, MPI_BYTE, taken[1], SHORT, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS);
	for (int from = 0; from < size; from++)
		CHECK(has_come("MPI_Alltoall", round, from, taken[1] + from * SHORT, SHORT, (int)round + from * size + rank));
}

/* Messages that their receiver takes when their sender has come to MPI_Finalize, and its
 * connections have failed. */
static void into_the_end(void)
{
	enum { LAST = 12 };
	static unsigned char words[LAST][BLOCK];
	if (rank % 2 == 0) {
		for (int i = 0; i < LAST; i++) {
			fill(words[i], BLOCK, i);
			CHECK(MPI_Send(words[i], BLOCK, MPI_BYTE, other, 6, MPI_COMM_WORLD) == MPI_SUCCESS);
			if (i == LAST - 2 && rank % 4 == 0)
				CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
		}
		CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
		return;
	}
	usleep(30000);
	if (rank % 4 == 3)
		CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
	for (int i = 0; i < LAST; i++) {
		CHECK(MPI_Recv(words[i], BLOCK, MPI_BYTE, other, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(has_come("at the end", 0, i, words[i], BLOCK, i));
	}
}

/* Connections of each rank that were made anew, at least. */
static long heals(void)
{
	struct ferriband_mpi_stats stats;
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	long mine = stats.remote_peers == 0 ? LONG_MAX : (long)stats.heals, least;
	CHECK(MPI_Allreduce(&mine, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS);
	return least;
}

int main(int argc, char **argv)
{
	const char *rounds = getenv("ROUNDS"), *seed = getenv("SEED");
	begin(&argc, &argv);
	CHECK(size % 2 == 0 && size <= LONG / SHORT);
	other = rank ^ 1;
	outside = getenv("OUTSIDE") != NULL;
	state = seed ? (unsigned)atol(seed) : 1;
	for (int i = 0; i < SEVERAL; i++) {
		sent[i] = malloc(LONG);
		taken[i] = malloc(LONG);
		CHECK(sent[i] && taken[i]);
	}
	/* A queue pair that fails before there was ever a connection is refused. */
	int ones[LONG / SHORT] = {0}, others[LONG / SHORT];
	CHECK(MPI_Alltoall(ones, 1, MPI_INT, others, 1, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
	if (outside && rank == 0)
		CHECK(fclose(fopen(getenv("OUTSIDE"), "w")) == 0);
	for (long round = 0; round < (rounds ? atol(rounds) : 40) || (outside && heals() < 5); round++) {
		left = any(12);
		whose = any(3);
		together(round, SEVERAL, SHORT);
		left = any(6);
		together(round, 2, LONG);
		left = any(4);
		with_gaps(round);
		left = any(2);
		collectives(round);
		left = -1;
	}
	CHECK(heals() > 0);
	if (rank == 0)
		printf("healslong: %d ranks: ok\n", size);
	if (!outside)
		into_the_end();
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
