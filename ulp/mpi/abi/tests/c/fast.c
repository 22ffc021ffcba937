/* The RDMA fast path by verbs: messages of all lengths both ways and one way, and what its counters say. With an argument: until a receiver has
 * asked its sender to pause, a block has been taken back for another sender, or a block has grown; or with settings that change meanwhile, or more messages than are kept
 * where they are sent from. */
#include "check.h"
#include <ferriband_mpi.h>
#include <unistd.h>

#define MOST 9000
#define WINDOW 40

static unsigned char out[WINDOW][MOST], in[MOST];

static struct ferriband_mpi_stats stats(void)
{
	struct ferriband_mpi_stats now;
	CHECK(ferriband_mpi_get_stats(&now) == 0);
	CHECK(now.messages == now.fast + now.no_channel + now.paused + now.no_credit + now.too_long + now.busy + now.bundled);
	CHECK(now.memory == now.blocks + now.mirrors + now.staging + now.returns);
	return now;
}

static long length_of(long number, int from)
{
	unsigned long mixed = (unsigned long)(number * 2654435761u + from * 40503u) >> 7;
	return number % 3 == 0 ? mixed % MOST : mixed % 200;
}

/* Every rank to every other, so that blocks fill and wrap. */
static void crowd(int rounds)
{
	MPI_Request requests[WINDOW];
	for (int round = 0; round < rounds; round++)
		for (int shift = 1; shift < size; shift++) {
			int to = (rank + shift) % size, from = (rank + size - shift) % size;
			for (long i = 0; i < WINDOW; i++) {
				long number = round * WINDOW + i, length = length_of(number, rank);
				fill(out[i], length, (int)number + rank);
				MPI_Isend(out[i], length, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[i]);
			}
			for (long i = 0; i < WINDOW; i++) {
				long number = round * WINDOW + i, length = length_of(number, from);
				MPI_Status status;
				int count;
				MPI_Recv(in, MOST, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status);
				MPI_Get_count(&status, MPI_BYTE, &count);
				CHECK(count == length && holds(in, length, (int)number + from));
			}
			MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		}
}

/* One way alone: credit has nothing to ride on. */
static void stream(int messages)
{
	int to = (rank + 1) % size, from = (rank + size - 1) % size;
	for (int turn = 0; turn < size; turn++) {
		if (turn == rank)
			for (int i = 0; i < messages; i++) {
				fill(out[0], i % 300, i);
				MPI_Send(out[0], i % 300, MPI_BYTE, to, 2, MPI_COMM_WORLD);
			}
		else if (turn == from)
			for (int i = 0; i < messages; i++) {
				MPI_Recv(in, MOST, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				CHECK(holds(in, i % 300, i));
			}
	}
}

/* The first rank sends late, so that the second sleeps in between; then they talk until it lets itself be written to again. */
static void pauses(void)
{
	int done = 0, late = 10000;
	for (int i = 0; i < 40; i++) {
		MPI_Sendrecv(out[0], 8, MPI_BYTE, 1 - rank, 3, in, 8, MPI_BYTE, 1 - rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	while (!done) {
		if (rank == 0)
			usleep(late);
		/* As late as it takes the second to fall asleep on a busy machine. */
		late = late < 500000 ? late * 2 : late;
		for (int i = 0; i < 30; i++)
			MPI_Sendrecv(out[0], 8, MPI_BYTE, 1 - rank, 3, in, 8, MPI_BYTE, 1 - rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		struct ferriband_mpi_stats now = stats();
		int mine = rank == 1 ? now.pauses > 2 : now.paused > 2 && now.fast > 0;
		MPI_Allreduce(&mine, &done, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	}
}

/* There is one block for two senders: the second gets it once the first has been slow. */
static void closes(void)
{
	int word = 0;
	if (rank == 1) {
		for (int i = 0; i < 20; i++)
			MPI_Send(&word, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
		MPI_Recv(&word, 1, MPI_INT, 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < 20; i++)
			MPI_Send(&i, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
		CHECK(stats().closed == 1);
	} else if (rank == 0) {
		for (int i = 0; i < 20; i++)
			MPI_Recv(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(stats().channels_in == 1);
		MPI_Send(&word, 1, MPI_INT, 2, 5, MPI_COMM_WORLD);
		do {
			MPI_Recv(&word, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&word, 1, MPI_INT, 2, 5, MPI_COMM_WORLD);
		} while (!word);
		for (int i = 0; i < 20; i++) {
			MPI_Recv(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(word == i);
		}
		CHECK(stats().channels_in == 1 && stats().refused > 0);
	} else {
		MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		do {
			word = stats().channels_out > 0;
			MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
			MPI_Recv(in, 4, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} while (!word);
		MPI_Send(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
	}
}

/* Messages that are too long for a small block, until it has become larger. */
static void grows(void)
{
	int word = 0, number = 0;
	do {
		for (int i = 0; i < 16; i++, number++) {
			if (rank == 0) {
				word = i == 15 && stats().grown > 1 && stats().channels_out == 1;
				memcpy(out[0], &word, sizeof word);
				fill(out[0] + 4, 3000, number);
				MPI_Send(out[0], 3004, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
			} else {
				MPI_Recv(in, MOST, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				memcpy(&word, in, sizeof word);
				CHECK(holds(in + 4, 3000, number));
			}
		}
	} while (!word);
}

/* Until each rank has a channel to each other one. */
static void open_all(void)
{
	int mine, all;
	do {
		crowd(1);
		mine = stats().channels_out == (uint64_t)size - 1;
		MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	} while (!all);
}

/* Designs and acknowledgements change while messages go on: each time all blocks are given up for others. */
static void switches(void)
{
	static const char *const designs[] = { "fixed-top", "variable-bottom", "variable-top", "fixed-bottom", "fixed-top", "variable-bottom" };
	enum { STEPS = sizeof designs / sizeof *designs };

	CHECK(ferriband_mpi_switch_setting("acks", "2") == -1 && ferriband_mpi_switch_setting("design", "best") == -1);
	CHECK(ferriband_mpi_switch_setting("eager", "1") == -1);
	open_all();
	for (int step = 0; step < STEPS; step++) {
		MPI_Barrier(MPI_COMM_WORLD);
		CHECK(stats().closed == (uint64_t)step * (size - 1));
		CHECK(ferriband_mpi_switch_setting("acks", step % 2 ? "1" : "0") == 0);
		CHECK(ferriband_mpi_switch_setting("design", designs[step]) == 0);
		open_all();
		stream(400);
	}
	CHECK(stats().closed == (uint64_t)STEPS * (size - 1) && stats().log > 0);
}

/* More messages than there are staging buffers, to a rank that is not in MPI and acknowledges nothing; then the other way. */
static void floods(void)
{
	enum { COUNT = 600 };
	static unsigned char sent[COUNT][2000];
	static MPI_Request requests[COUNT];

	for (int turn = 0; turn < 2; turn++) {
		int word = 0;
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == turn) {
			for (int i = 0; i < COUNT; i++) {
				fill(sent[i], 1 + i * 3, i);
				MPI_Isend(sent[i], 1 + i * 3, MPI_BYTE, 1 - turn, 7, MPI_COMM_WORLD, &requests[i]);
			}
			MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
			MPI_Recv(&word, 1, MPI_INT, 1 - turn, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(word == COUNT);
		} else {
			usleep(30000);
			for (; word < COUNT; word++) {
				MPI_Recv(in, MOST, MPI_BYTE, turn, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				CHECK(holds(in, 1 + word * 3, word));
			}
			MPI_Send(&word, 1, MPI_INT, turn, 8, MPI_COMM_WORLD);
		}
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "pause"))
		pauses();
	else if (!strcmp(what, "close"))
		closes();
	else if (!strcmp(what, "grow"))
		grows();
	else if (!strcmp(what, "switch"))
		switches();
	else if (!strcmp(what, "flood"))
		floods();
	else {
		crowd(12);
		stream(1500);
		crowd(4);
		CHECK(stats().fast > 0 && stats().channels_out > 0);
	}
	return end("fast");
}
