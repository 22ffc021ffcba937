/* Messages that fill a packet, or nearly: those may go without their envelope where the one before them said the same. Shorter and longer ones, other tags, communicators
 * and modes come between, in windows in both directions; each must arrive as what it is. */
#include "check.h"

enum { WINDOW = 24, LONGEST = 65536 };

static const int sizes[] = { 8, 996, 997, 1000, 1024, 1024, 1025, 2020, 2048, 3072, 4068, 4096, 8128, 16356, 16384, 30000, 65508, LONGEST };
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static unsigned char out[WINDOW][LONGEST], in[WINDOW][LONGEST];

/* The same drawing at both ends. */
static unsigned draw(unsigned *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 16;
}

static void start(int peer, MPI_Comm comm, int way, int slot, int size, int tag, MPI_Request *request)
{
	fill(out[slot], size, tag + slot);
	if (way == 0)
		CHECK(MPI_Isend(out[slot], size, MPI_BYTE, peer, tag, comm, request) == MPI_SUCCESS);
	else if (way == 1)
		CHECK(MPI_Issend(out[slot], size, MPI_BYTE, peer, tag, comm, request) == MPI_SUCCESS);
	else {
		CHECK(MPI_Send(out[slot], size, MPI_BYTE, peer, tag, comm) == MPI_SUCCESS);
		*request = MPI_REQUEST_NULL;
	}
}

/* A window each way at once; receives are posted before or after the sends. `varied` 0: all of one size and tag, as most programs; else drawn. */
static void window(int peer, MPI_Comm comms[2], unsigned *state, int varied)
{
	MPI_Request sends[WINDOW], receives[WINDOW];
	MPI_Status statuses[WINDOW];
	int lengths[WINDOW], tags[WINDOW], ways[WINDOW];
	MPI_Comm where[WINDOW];
	int early = draw(state) & 1;

	for (int i = 0; i < WINDOW; i++) {
		unsigned what = draw(state);
		int anew = i == 0 || (varied && what % 3 == 0);
		lengths[i] = anew ? sizes[draw(state) % SIZES] : lengths[i - 1];
		tags[i] = anew ? (int)(draw(state) % 4) : tags[i - 1];
		where[i] = varied ? comms[draw(state) % 2] : comms[0];
		/* One that waits for its receive would wait for ever where those are posted later. */
		ways[i] = varied ? draw(state) % 2 : 0;
		if (early && varied && draw(state) % 4 == 0 && lengths[i] < 4096)
			ways[i] = 2;
	}
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < WINDOW; i++)
			if (turn == !early)
				MPI_Irecv(in[i], LONGEST, MPI_BYTE, peer, tags[i], where[i], &receives[i]);
			else
				start(peer, where[i], ways[i], i, lengths[i], tags[i], &sends[i]);
	CHECK(MPI_Waitall(WINDOW, receives, statuses) == MPI_SUCCESS);
	CHECK(MPI_Waitall(WINDOW, sends, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	for (int i = 0; i < WINDOW; i++) {
		int count;
		MPI_Get_count(&statuses[i], MPI_BYTE, &count);
		CHECK(count == lengths[i]);
		CHECK(statuses[i].MPI_TAG == tags[i]);
		CHECK(holds(in[i], count, tags[i] + i));
	}
}

/* One way only, so that who receives has nothing of its own on which to say how far it is. */
static void stream(int peer, int sends, int size)
{
	MPI_Request requests[WINDOW];

	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < WINDOW; i++)
			if (sends)
				start(peer, MPI_COMM_WORLD, 0, i, size, round % 2, &requests[i]);
			else
				MPI_Irecv(in[i], size, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
		CHECK(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		for (int i = 0; i < WINDOW && !sends; i++)
			CHECK(holds(in[i], size, round % 2 + i));
	}
}

int main(int argc, char **argv)
{
	MPI_Comm comms[2] = { MPI_COMM_WORLD, MPI_COMM_NULL };

	begin(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	/* Each with each, pair by pair in the same order everywhere. */
	for (int a = 0; a < size; a++)
		for (int b = a + 1; b < size; b++) {
			unsigned state = 7 + a * 31 + b;
			if (rank != a && rank != b)
				continue;
			for (int round = 0; round < 60; round++)
				window(rank == a ? b : a, comms, &state, round % 3 != 0);
			for (int i = 0; i < SIZES; i++)
				stream(rank == a ? b : a, (rank == a) == i % 2, sizes[i]);
		}
	MPI_Comm_free(&comms[1]);
	return end("fills");
}
