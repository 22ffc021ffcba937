/* Of several requests that are over, MPI_Testany and MPI_Waitany take out the one that was over first: a program that keeps several receives posted, and whose senders say
 * at last that nothing comes any more, has then seen all that came before. The standard leaves the choice open; this is what ours promises. */
#include "check.h"

enum { POSTED = 4, MESSAGES = 40, UPDATE = 1, FINISHED = 2, GO = 3 };

/* All others send, and then say that they have: what is taken out last of each is that. As HPC Challenge's random access receives. */
static void updates(int waits)
{
	int buffers[POSTED], got[64] = { 0 }, finished = 0;
	MPI_Request requests[POSTED];

	if (rank != 0) {
		int word = rank;
		for (int i = 0; i < MESSAGES; i++)
			CHECK(MPI_Send(&word, 1, MPI_INT, 0, UPDATE, MPI_COMM_WORLD) == MPI_SUCCESS);
		CHECK(MPI_Send(NULL, 0, MPI_INT, 0, FINISHED, MPI_COMM_WORLD) == MPI_SUCCESS);
		return;
	}
	for (int i = 0; i < POSTED; i++)
		MPI_Irecv(&buffers[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
	while (finished < size - 1) {
		int index, flag = 1;
		MPI_Status status;
		if (waits)
			MPI_Waitany(POSTED, requests, &index, &status);
		else
			MPI_Testany(POSTED, requests, &index, &flag, &status);
		if (!flag)
			continue;
		if (status.MPI_TAG == FINISHED) {
			CHECK(got[status.MPI_SOURCE] == MESSAGES);
			finished++;
		} else {
			CHECK(buffers[index] == status.MPI_SOURCE);
			got[status.MPI_SOURCE]++;
		}
		MPI_Irecv(&buffers[index], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[index]);
	}
	for (int i = 0; i < POSTED; i++) {
		MPI_Cancel(&requests[i]);
		MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
	}
}

/* Receives are posted from the last to the first; the message after theirs says that all of them are over. */
static void backwards(int waits)
{
	int words[POSTED], go = 0;
	MPI_Request requests[POSTED];

	if (rank == 1) {
		MPI_Recv(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < POSTED; i++)
			MPI_Send(&i, 1, MPI_INT, 0, UPDATE, MPI_COMM_WORLD);
		MPI_Send(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD);
	}
	if (rank != 0 || size == 1)
		return;
	for (int i = POSTED - 1; i >= 0; i--)
		MPI_Irecv(&words[i], 1, MPI_INT, 1, UPDATE, MPI_COMM_WORLD, &requests[i]);
	MPI_Send(&go, 1, MPI_INT, 1, GO, MPI_COMM_WORLD);
	MPI_Recv(&go, 1, MPI_INT, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < POSTED; i++) {
		int index, flag = 1;
		if (waits)
			MPI_Waitany(POSTED, requests, &index, MPI_STATUS_IGNORE);
		else
			MPI_Testany(POSTED, requests, &index, &flag, MPI_STATUS_IGNORE);
		CHECK(flag && index == POSTED - 1 - i && words[index] == i);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	for (int round = 0; round < 40; round++) {
		updates(round % 2);
		MPI_Barrier(MPI_COMM_WORLD);
		backwards(round % 2);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return end("order");
}
