/* What a rank must find whoever has started it: its place, the others, and an end for all when one of them fails. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

/* Each to each, short and long, and the sum of all. */
static void all_to_all(void)
{
	enum { LONG = 50000 };
	static int out[LONG], in[LONG];
	int lengths[] = {1, LONG};
	for (int step = 0; step < size; step++) {
		int to = (rank + step) % size, from = (rank + size - step) % size;
		for (int kind = 0; kind < 2; kind++) {
			int count = lengths[kind];
			MPI_Status status;
			for (int i = 0; i < count; i++)
				out[i] = rank * 1000 + i;
			memset(in, 0, sizeof in);
			MPI_Sendrecv(out, count, MPI_INT, to, kind, in, count, MPI_INT, from, kind, MPI_COMM_WORLD, &status);
			CHECK(status.MPI_SOURCE == from);
			CHECK(in[0] == from * 1000 && in[count - 1] == from * 1000 + count - 1);
		}
	}
	int sum = 0;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == size * (size - 1) / 2);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int value = 0;
	begin(&argc, &argv);
	all_to_all();
	if (!strcmp(how, "near")) {
		/* All ranks are on one host. */
		MPI_Comm near;
		int together;
		MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
		MPI_Comm_size(near, &together);
		CHECK(together == size);
		MPI_Comm_free(&near);
		how = "";
	}
	if (!strcmp(how, "programs")) {
		int *number, flag;
		MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
		printf("rank %d runs program %d\n", rank, flag ? *number : -1);
		MPI_Finalize();
		return 0;
	}
	if (!strcmp(how, "status")) {
		MPI_Finalize();
		return rank == size - 1 ? 9 : 0;
	}
	if (*how && rank == size - 1) {
		if (!strcmp(how, "kill"))
			raise(SIGKILL);
		if (!strcmp(how, "abort"))
			MPI_Abort(MPI_COMM_WORLD, 42);
		if (!strcmp(how, "exit"))
			exit(3);
	}
	if (*how)
		MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return end("launched");
}
