/*
 * What `ferriband bench --mpi --fastpath` measures: what acknowledgements, idle channels and the designs of the fast path cost. Compiled by our mpicc.
 *
 * Prints lines "NAME/NUMBER FIGURE" as compare.c does.
 */
#include <ferriband_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 201, LONGEST = 4096, WINDOW = 32, BURST = 16 };

static int rank, size;
static char out[WINDOW][LONGEST], in[WINDOW][LONGEST];

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

/* The first two ranks; all others sleep meanwhile. */
static void ping_pong(int length, int times)
{
	for (int i = 0; i < times; i++) {
		if (rank == 0)
			MPI_Send(out[0], length, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in[0], length, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(out[0], length, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
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

/* Seconds of one repetition, the median of batches. */
static double median(void (*work)(int, int), int length, int times)
{
	static double took[BATCHES];
	work(length, times);
	for (int i = 0; i < BATCHES; i++) {
		double start = MPI_Wtime();
		work(length, times);
		took[i] = (MPI_Wtime() - start) / times;
	}
	qsort(took, BATCHES, sizeof *took, by_value);
	return took[BATCHES / 2];
}

static void pairs(void)
{
	static const int lengths[] = { 8, 1024, 4096 };
	for (int i = 0; i < 3; i++)
		say("latency", lengths[i], median(ping_pong, lengths[i], 200) / 2);
	for (int i = 0; i < 3; i++)
		say("message", lengths[i], median(stream, lengths[i], 10) / WINDOW);
}

/* The others send to both, so often that each has a channel, or so seldom that none has; then they sleep. */
static void idle(int before)
{
	char word[8] = "";
	for (int i = 0; i < before; i++)
		for (int to = 0; to < 2; to++)
			if (rank >= 2)
				MPI_Send(word, 8, MPI_BYTE, to, 3, MPI_COMM_WORLD);
			else
				for (int from = 2; rank == to && from < size; from++)
					MPI_Recv(word, 8, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank >= 2) {
		MPI_Recv(word, 8, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		return;
	}
	say("latency", 8, median(ping_pong, 8, 200) / 2);
	for (int to = 2; rank == 0 && to < size; to++)
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
	if (strcmp(what, "pairs") == 0 && size == 2)
		pairs();
	else if (strcmp(what, "none") == 0 && size > 2)
		idle(0);
	else if (strcmp(what, "idle") == 0 && size > 2)
		idle(4);
	else if (strcmp(what, "channels") == 0 && size > 2)
		idle(40);
	else if (strcmp(what, "share") == 0)
		share();
	else
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Finalize();
	return 0;
}
