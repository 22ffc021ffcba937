/* A long message into memory that cannot be written to: both sides are told, and work goes on. With an argument, or SENDER in the environment, also one out of memory that cannot be
   read. */
#include "check.h"
#include <sys/mman.h>

enum { LENGTH = 1000000 };

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	char *good = malloc(LENGTH);
	char *bad = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(good && bad != MAP_FAILED);
	int sender = argc > 1 || getenv("SENDER");
	for (int round = 0; round < (sender ? 8 : 4); round++) {
		int wrong = round % 2 == 0, at = round < 4;
		if (rank == 0) {
			memset(good, round + 1, LENGTH);
			int code = MPI_Send(wrong && !at ? bad : good, LENGTH, MPI_CHAR, 1, round, MPI_COMM_WORLD);
			CHECK(code == (wrong ? MPI_ERR_BUFFER : MPI_SUCCESS));
		} else if (rank == 1) {
			int code = MPI_Recv(wrong && at ? bad : good, LENGTH, MPI_CHAR, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(code == (wrong ? MPI_ERR_BUFFER : MPI_SUCCESS));
			CHECK(wrong || (good[0] == round + 1 && good[LENGTH - 1] == round + 1));
		}
	}
	if (rank == 0)
		printf("unreached: ok\n");
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
