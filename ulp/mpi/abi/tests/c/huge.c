/* A message of 2 GiB and a byte arrives whole, with its count. Needs 2 GiB of memory for each of two ranks. */
#include "check.h"
#include <stdint.h>

enum { WORD = 8 };

int main(int argc, char **argv)
{
	const MPI_Count length = ((MPI_Count)1 << 31) + 1;
	begin(&argc, &argv);
	if (rank < 2) {
		unsigned char *buffer = malloc(length + WORD);
		CHECK(buffer != NULL);
		uint64_t *words = (uint64_t *)buffer;
		if (rank == 0) {
			for (MPI_Count i = 0; i < length / WORD; i++)
				words[i] = (uint64_t)i * 0x9e3779b97f4a7c15u + 1;
			buffer[length - 1] = 0x5a;
			MPI_Send_c(buffer, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		} else {
			MPI_Status status;
			MPI_Count count;
			int small;
			buffer[length] = 0x77;
			MPI_Recv_c(buffer, length + 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
			CHECK(MPI_Get_count_c(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == length);
			/* An int cannot say it. */
			CHECK(MPI_Get_count(&status, MPI_BYTE, &small) == MPI_SUCCESS && small == MPI_UNDEFINED);
			for (MPI_Count i = 0; i < length / WORD; i++)
				CHECK(words[i] == (uint64_t)i * 0x9e3779b97f4a7c15u + 1);
			CHECK(buffer[length - 1] == 0x5a && buffer[length] == 0x77);
		}
		free(buffer);
	}
	return end("huge");
}
