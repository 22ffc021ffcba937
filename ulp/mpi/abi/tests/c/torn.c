/* Memory of a long message that was good a moment ago and has lost a page since, which nobody looks for: the message ends with MPI_ERR_BUFFER at the side that moves it, its other
   side and what follows with MPI_ERR_PROC_ABORTED, at once. Where both move it, as by SEND, the side whose memory it is has MPI_ERR_BUFFER and the other one of both.
   Arguments: whose memory, and who moves it (2: both). */
#include "check.h"
#include <sys/mman.h>

enum { LENGTH = 1 << 20 };

int main(int argc, char **argv)
{
	int code;
	begin(&argc, &argv);
	int bad = argc > 1 ? atoi(argv[1]) : 1, moves = argc > 2 ? atoi(argv[2]) : 1;
	CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, rank, LENGTH);
	for (int round = 0; round < 2; round++) {
		double begun = MPI_Wtime();
		if (round == 1 && rank == bad)
			CHECK(mprotect(memory + LENGTH / 2, 4096, PROT_NONE) == 0);
		if (rank == 0)
			code = MPI_Send(memory, LENGTH, MPI_CHAR, 1, round, MPI_COMM_WORLD);
		else
			code = MPI_Recv(memory, LENGTH, MPI_CHAR, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		int is_one = class_of(code) == MPI_ERR_BUFFER || (class_of(code) == MPI_ERR_PROC_ABORTED && rank != bad);
		if (round == 0)
			CHECK(code == MPI_SUCCESS);
		else
			CHECK(moves == 2 ? is_one : class_of(code) == (rank == moves ? MPI_ERR_BUFFER : MPI_ERR_PROC_ABORTED));
		CHECK(MPI_Wtime() - begun < 5);
	}
	CHECK(class_of(MPI_Send(&code, 1, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD)) == MPI_ERR_PROC_ABORTED);
	if (rank == 0)
		printf("torn: ok\n");
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
