/* Messages between pairs of ranks while queue pairs fail: 8 bytes to and fro, windows of 1 KiB,
 * many short ones in a row. None is lost, none comes twice, none is overtaken. ROUNDS in the
 * environment: how many times ranks have their connections fail; SEED: when. */
#include "check.h"
#include <ferriband_mpi.h>

#define WINDOW 16
#define MANY 40

static int other;
/* Messages of this round until the connections fail, and whose do: of the even ranks, of the odd
 * ones, or of all. */
static int left, whose;
static unsigned state = 1;

/* From 0 to before `below`, the same at all ranks. */
static int any(unsigned below)
{
	state = state * 1664525 + 1013904223;
	return (int)(((unsigned long long)state * below) >> 32);
}

/* This rank is about to send: perhaps its connections fail first. */
static void next(void)
{
	if (left-- == 0 && whose != rank % 2)
		CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
}

/* 8 bytes to and fro. */
static void to_and_fro(long round)
{
	for (long i = 0; i < 8; i++) {
		long said = round * 100 + i, heard = -1;
		if (rank % 2) {
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard == said);
			next();
			CHECK(MPI_Send(&said, 1, MPI_LONG, other, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
		} else {
			next();
			CHECK(MPI_Send(&said, 1, MPI_LONG, other, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard == said);
		}
	}
}

/* `count` messages of `length` bytes in a row, from the one side to the other, or both ways at
 * once. */
static void in_a_row(long round, int count, int length)
{
	static unsigned char sent[MANY][1024], taken[MANY][1024];
	MPI_Request requests[2 * MANY];
	int sends = round % 3 != rank % 2, receives = round % 3 == 2 || !sends;
	int used = 0;
	for (int i = 0; receives && i < count; i++) {
		memset(taken[i], 0, length);
		CHECK(MPI_Irecv(taken[i], length, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
	}
	for (int i = 0; sends && i < count; i++) {
		fill(sent[i], length, (int)(round + i + 1));
		next();
		CHECK(MPI_Isend(sent[i], length, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[used++]) == MPI_SUCCESS);
	}
	CHECK(MPI_Waitall(used, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; receives && i < count; i++)
		CHECK(holds(taken[i], length, (int)(round + i + 1)));
}

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	const char *rounds = getenv("ROUNDS"), *seed = getenv("SEED");
	begin(&argc, &argv);
	CHECK(size % 2 == 0);
	other = rank ^ 1;
	state = seed ? (unsigned)atol(seed) : 1;
	for (long round = 0; round < (rounds ? atol(rounds) : 300); round++) {
		left = any(24);
		whose = any(3);
		to_and_fro(round);
		in_a_row(round, WINDOW, 1024);
		in_a_row(round, MANY, 8);
		left = -1;
	}
	to_and_fro(0);
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	CHECK(stats.remote_peers == 0 || stats.heals > 0);
	return end("heals");
}
