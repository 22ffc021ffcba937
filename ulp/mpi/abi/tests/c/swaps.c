/*
 * Messages to and fro between all pairs, of lengths and in bursts that look random, the same at all ranks: receives are there before the message or come after it, elements lie with gaps, sends are
 * of all kinds, and each byte that was received is looked at. What two ranks exchange goes by memory whose writer changes with each message.
 */
#include "check.h"
#include "ferriband_mpi.h"
#include "random.h"

enum { LONGEST = 70000, ROUNDS = 400, BURST = 4 };

static unsigned char value(int from, int to, int round, int at, int byte)
{
	return (unsigned char)(from * 31 + to * 17 + round * 7 + at * 101 + byte * 3 + (byte >> 8));
}

/* What one rank has for another in a round. */
struct message {
	int length, mode, gaps;
};

static unsigned char *out[BURST], *in[BURST];
static MPI_Datatype pairs; /* two bytes of each four */

static void lay(unsigned char *to, int from, int dest, int round, int at, const struct message *message)
{
	for (int byte = 0; byte < message->length; byte++)
		to[message->gaps ? byte / 2 * 4 + byte % 2 : byte] = value(from, dest, round, at, byte);
}

static MPI_Request send(int peer, int at, const struct message *message)
{
	MPI_Request request;
	MPI_Datatype type = message->gaps ? pairs : MPI_BYTE;
	int count = message->gaps ? message->length / 2 : message->length;
	if (message->mode == 1)
		CHECK(MPI_Issend(out[at], count, type, peer, 5, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	else
		CHECK(MPI_Isend(out[at], count, type, peer, 5, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	return request;
}

static MPI_Request await(int peer, int at, const struct message *message)
{
	MPI_Request request;
	/* Gaps are at either side, or at both. */
	MPI_Datatype type = message->mode == 2 ? pairs : MPI_BYTE;
	int count = message->mode == 2 ? LONGEST / 2 + 1 : LONGEST + 8;
	memset(in[at], 0xee, 2 * LONGEST + 16);
	CHECK(MPI_Irecv(in[at], count, type, peer, 5, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
	return request;
}

static void look(int peer, int round, int at, const struct message *message, MPI_Status *status)
{
	int count, gaps = message->mode == 2;
	CHECK(MPI_Get_count(status, MPI_BYTE, &count) == MPI_SUCCESS && count == message->length);
	for (int byte = 0; byte < message->length; byte++)
		CHECK(in[at][gaps ? byte / 2 * 4 + byte % 2 : byte] == value(peer, rank, round, at, byte));
	CHECK(in[at][gaps ? (message->length + 1) / 2 * 4 + 2 : message->length] == 0xee);
}

/* Almost all of what two ranks send to and fro goes by such memory, for as long as they like. */
static void to_and_fro(int length)
{
	enum { TIMES = 500 };
	struct ferriband_mpi_stats before, after;
	int counts = ferriband_mpi_get_stats(&before) == 0;
	for (int i = 0; i < TIMES && rank < 2; i++) {
		for (int turn = 0; turn < 2; turn++)
			if (turn == rank)
				CHECK(MPI_Send(out[0], length, MPI_BYTE, !rank, 6, MPI_COMM_WORLD) == MPI_SUCCESS);
			else
				CHECK(MPI_Recv(in[0], length, MPI_BYTE, !rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	}
	/* At first there may be no channel. */
	if (counts && rank < 2 && size <= 16)
		CHECK(ferriband_mpi_get_stats(&after) == 0 && after.placed - before.placed >= TIMES - 8);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Datatype two;
	CHECK(MPI_Type_contiguous(2, MPI_BYTE, &two) == MPI_SUCCESS);
	CHECK(MPI_Type_create_resized(two, 0, 4, &pairs) == MPI_SUCCESS && MPI_Type_commit(&pairs) == MPI_SUCCESS);
	CHECK(MPI_Type_free(&two) == MPI_SUCCESS);
	for (int at = 0; at < BURST; at++) {
		out[at] = malloc(2 * LONGEST + 16);
		in[at] = malloc(2 * LONGEST + 16);
	}
	static const int lengths[] = { 256, 2048, 4096, 8128, 65536 };
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths && size > 1; i++)
		to_and_fro(lengths[i]);
	for (int round = 0; round < ROUNDS && size > 1; round++) {
		int distance = 1 + (int)any(size - 1), after = (int)any(4), counts[2] = { (int)any(BURST + 1), (int)any(BURST + 1) };
		struct message messages[2][BURST];
		/* In some rounds only every second rank sends. */
		int one_way = any(3) == 0;
		for (int side = 0; side < 2; side++)
			for (int at = 0; at < BURST; at++) {
				struct message *message = &messages[side][at];
				message->length = some_length(LONGEST);
				message->mode = (int)any(4);
				message->gaps = any(5) == 0;
				if (message->gaps || message->mode == 2)
					message->length &= ~1;
			}
		/* Ranks on one side of the middle send the first list, the others the second. */
		int to = (rank + distance) % size, from = (rank + size - distance) % size, mine = rank % 2, theirs = from % 2;
		int sent = one_way && mine ? 0 : counts[mine], came = one_way && theirs ? 0 : counts[theirs];
		MPI_Request sends[BURST], receives[BURST];
		MPI_Status statuses[BURST];
		for (int at = 0; at < came && after != 0; at++)
			receives[at] = await(from, at, &messages[theirs][at]);
		for (int at = 0; at < sent; at++) {
			lay(out[at], rank, to, round, at, &messages[mine][at]);
			sends[at] = send(to, at, &messages[mine][at]);
		}
		for (int at = 0; at < came && after == 0; at++)
			receives[at] = await(from, at, &messages[theirs][at]);
		CHECK(MPI_Waitall(came, receives, statuses) == MPI_SUCCESS);
		for (int at = 0; at < came; at++)
			look(from, round, at, &messages[theirs][at], &statuses[at]);
		CHECK(MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
	}
	CHECK(MPI_Type_free(&pairs) == MPI_SUCCESS);
	return end("swaps");
}
