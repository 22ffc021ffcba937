/*
 * What `ferriband-dev bench --mpi --fastpath` measures: what acknowledgements, idle channels and the designs of the fast path cost. Compiled by our mpicc.
 * What is compared takes turns within one run: two runs of one program differ by more than what is looked for.
 *
 * Prints lines "NAME/NUMBER FIGURE" as compare.c does.
 */
#define _GNU_SOURCE
#include <ferriband_mpi.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* APART: 0.98 times the root of SEGMENTS, so far from the middle lies the end of a median's 95 % interval. */
enum { SEGMENTS = 400, APART = 20, LONGEST = 4096, WINDOW = 32, BURST = 16 };

static int rank, size;
/* Of the two ranks that talk, the first one. */
static int first;
static char out[WINDOW][LONGEST], in[WINDOW][LONGEST];
/* Without and with, each segment's figure. */
static double sides[2][SEGMENTS], ratios[SEGMENTS];

static int by_value(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

static void say(const char *name, int number, double figure)
{
	if (rank == 0) {
		printf("%s/%d %.9g\n", name, number, figure);
		fflush(stdout);
	}
}

static void ping_pong(int length, int times)
{
	int other = 2 * first + 1 - rank;
	for (int i = 0; i < times; i++) {
		if (rank == first)
			MPI_Send(out[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD);
		MPI_Recv(in[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank != first)
			MPI_Send(out[0], length, MPI_BYTE, other, 1, MPI_COMM_WORLD);
	}
}

/* A window of messages one way, then an answer. */
static void stream(int length, int times)
{
	MPI_Request requests[WINDOW];
	for (int i = 0; i < times; i++) {
		for (int j = 0; j < WINDOW; j++) {
			if (rank == 0)
				MPI_Isend(out[j], length, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[j]);
			else
				MPI_Irecv(in[j], length, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[j]);
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		ping_pong(4, 1);
	}
}

/* Medians of both sides and of the ratios of neighbours, with that median's 95 % interval: as many ratios lie below it as coins fall on one side. */
static void tell(const char *name, int number)
{
	static const char *const what[] = { "with", "without", "ratio", "low", "high" };
	int middle = SEGMENTS / 2;

	for (int i = 0; i < SEGMENTS; i++)
		ratios[i] = sides[1][i] / sides[0][i];
	qsort(sides[0], SEGMENTS, sizeof **sides, by_value);
	qsort(sides[1], SEGMENTS, sizeof **sides, by_value);
	qsort(ratios, SEGMENTS, sizeof *ratios, by_value);
	double figures[] = { sides[1][middle], sides[0][middle], ratios[middle], ratios[middle - APART], ratios[middle + APART] };
	for (int i = 0; i < 5; i++) {
		char key[64];
		snprintf(key, sizeof key, "%s-%s", name, what[i]);
		say(key, number, figures[i]);
	}
}

/* Repetitions that take about a millisecond: the first rank measures, and tells the other one. */
static int repetitions(void (*work)(int, int), int length)
{
	enum { TRIED = 20, MOST = 2000 };
	int times = TRIED;
	double start;

	work(length, TRIED);
	start = MPI_Wtime();
	work(length, TRIED);
	if (rank == first) {
		times = 1e-3 * TRIED / (MPI_Wtime() - start) + 1;
		times = times < MOST ? times : MOST;
		MPI_Send(&times, 1, MPI_INT, first + 1, 8, MPI_COMM_WORLD);
	} else {
		MPI_Recv(&times, 1, MPI_INT, first, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return times;
}

/* Seconds of one repetition. What a segment begins with is not told: channels come back, caches fill. */
static double segment(void (*work)(int, int), int length, int times)
{
	double start;

	ping_pong(8, 64);
	work(length, times / 4 + 1);
	start = MPI_Wtime();
	work(length, times);
	return (MPI_Wtime() - start) / times;
}

/* Two sides take turns in segments of about a millisecond within one run of the same processes; each goes first in every second pair of segments. */
static void compare(void (*turn)(int), const char *name, void (*work)(int, int), int length, double share)
{
	int times;

	turn(0);
	times = repetitions(work, length);
	for (int i = 0; i < SEGMENTS; i++)
		for (int j = 0; j < 2; j++) {
			int side = (i + j) % 2;
			turn(side);
			sides[side][i] = segment(work, length, times) * share;
		}
	tell(name, length);
}

static void switch_setting(const char *name, const char *value)
{
	if (ferriband_mpi_switch_setting(name, value) != 0)
		MPI_Abort(MPI_COMM_WORLD, 5);
}

static void acks(int with)
{
	switch_setting("acks", with ? "1" : "0");
}

static void veloblock(int with)
{
	switch_setting("design", with ? "variable-bottom" : "fixed-top");
}

static const int lengths[] = { 8, 1024, 4096 };

static void latencies(void (*turn)(int))
{
	for (int i = 0; i < 3; i++)
		compare(turn, "latency", ping_pong, lengths[i], 0.5);
}

static void windows(void (*turn)(int))
{
	for (int i = 0; i < 3; i++)
		compare(turn, "message", stream, lengths[i], 1.0 / WINDOW);
}

/* Two pairs of ranks talk in turns, each on the same two cores. To the first pair all ranks behind both have sent so often that each has a channel; to the second one so
 * seldom, `before` times, that none has. All others sleep. */
static void idle(int before)
{
	char word[8] = "";
	int pair = rank / 2, times;
	double *own = sides[pair == 0];
	cpu_set_t set;

	for (int to = 0; to < 4; to++)
		for (int i = 0; i < (to < 2 ? 40 : before); i++)
			if (rank >= 4)
				MPI_Send(word, 8, MPI_BYTE, to, 3, MPI_COMM_WORLD);
			else
				for (int from = 4; rank == to && from < size; from++)
					MPI_Recv(word, 8, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank >= 4) {
		MPI_Recv(word, 8, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		return;
	}
	first = 2 * pair;
	if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 2) {
		int skip = rank % 2;
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &set) && skip-- == 0) {
				CPU_ZERO(&set);
				CPU_SET(cpu, &set);
				sched_setaffinity(0, sizeof set, &set);
				break;
			}
	}
	times = repetitions(ping_pong, 8);
	for (int i = 0; i < SEGMENTS; i++) {
		/* The first ranks of both pairs hand the turn on. */
		if (rank == 2 || (rank == 0 && i > 0))
			MPI_Recv(word, 8, MPI_BYTE, 2 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		own[i] = segment(ping_pong, 8, times) / 2;
		if (rank == 0 || (rank == 2 && i < SEGMENTS - 1))
			MPI_Send(word, 8, MPI_BYTE, 2 - rank, 6, MPI_COMM_WORLD);
	}
	if (rank == 2)
		MPI_Send(own, SEGMENTS, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
	if (rank != 0)
		return;
	MPI_Recv(sides[0], SEGMENTS, MPI_DOUBLE, 2, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	tell("latency", 8);
	for (int to = 4; to < size; to++)
		MPI_Send(word, 8, MPI_BYTE, to, 4, MPI_COMM_WORLD);
}

/* Each to each other, in bursts that a block holds: two thirds are up to 200 bytes, a third up to 4,096. */
static void bursts(int rounds)
{
	static unsigned number;
	MPI_Request requests[2 * BURST];
	for (int round = 0; round < rounds; round++)
		for (int shift = 1; shift < size; shift++) {
			int to = (rank + shift) % size, from = (rank + size - shift) % size;
			for (int i = 0; i < BURST; i++) {
				unsigned mixed = number++ * 2654435761u >> 12;
				int length = i % 3 == 0 ? mixed % LONGEST : mixed % 200;
				MPI_Irecv(in[i], LONGEST, MPI_BYTE, from, 5, MPI_COMM_WORLD, &requests[i]);
				MPI_Isend(out[i], length, MPI_BYTE, to, 5, MPI_COMM_WORLD, &requests[BURST + i]);
			}
			MPI_Waitall(2 * BURST, requests, MPI_STATUSES_IGNORE);
		}
}

/* The share of messages by the fast path once all channels are there, and what memory a channel takes at both sides: block and mirror. (Staging buffers are those
 * of SENDs, whatever the design.) */
static void share(void)
{
	struct ferriband_mpi_stats before, after;
	double own[4], sum[4];
	bursts(10);
	if (ferriband_mpi_get_stats(&before) != 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
	bursts(100);
	ferriband_mpi_get_stats(&after);
	own[0] = after.fast - before.fast;
	own[1] = after.messages - before.messages;
	own[2] = after.blocks + after.mirrors;
	own[3] = after.channels_in;
	MPI_Reduce(own, sum, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0 && (sum[1] == 0 || sum[3] == 0))
		MPI_Abort(MPI_COMM_WORLD, 4);
	say("share", size, sum[0] / sum[1]);
	say("channel", size, sum[2] / sum[3]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (strcmp(what, "acks") == 0 && size == 2) {
		latencies(acks);
		windows(acks);
	} else if (strcmp(what, "control") == 0 && size == 2)
		compare(acks, "latency", ping_pong, 8, 0.5);
	else if (strcmp(what, "design") == 0 && size == 2)
		latencies(veloblock);
	else if (strcmp(what, "idle") == 0 && size > 4)
		idle(4);
	else if (strcmp(what, "idle-near") == 0 && size > 4)
		idle(0);
	else if (strcmp(what, "share") == 0)
		share();
	else
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Finalize();
	return 0;
}
