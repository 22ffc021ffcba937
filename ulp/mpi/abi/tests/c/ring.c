/* Messages of growing length go around the ring of ranks, each a little changed by each rank. */
#include "check.h"

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	long most = 3 << 20;
	unsigned char *buffer = malloc(most);

	for (long length = 0; length <= most; length = length * 3 + 1) {
		MPI_Status status;
		int count;
		if (size == 1) {
			MPI_Request request;
			unsigned char *copy = malloc(length + 1);
			fill(copy, length, 5);
			CHECK(MPI_Irecv(buffer, length, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
			CHECK(MPI_Send(copy, length, MPI_BYTE, 0, 9, MPI_COMM_WORLD) == MPI_SUCCESS);
			CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
			CHECK(holds(buffer, length, 5));
			free(copy);
			continue;
		}
		if (rank == 0) {
			fill(buffer, length, 1);
			MPI_Send(buffer, length, MPI_BYTE, next, 7, MPI_COMM_WORLD);
		}
		memset(&status, 0xee, sizeof status);
		MPI_Recv(buffer, most, MPI_BYTE, before, 7, MPI_COMM_WORLD, &status);
		CHECK(status.MPI_SOURCE == before && status.MPI_TAG == 7);
		CHECK(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == length);
		CHECK(holds(buffer, length, rank == 0 ? size : rank));
		if (rank != 0) {
			for (long i = 0; i < length; i++)
				buffer[i]++;
			MPI_Send(buffer, length, MPI_BYTE, next, 7, MPI_COMM_WORLD);
		}
	}
	free(buffer);
	return end("ring");
}
