/* The first rank reads numbers from its standard input, and the last one says their sum. */
#include "check.h"

int main(int argc, char **argv)
{
	long sum = 0, next;
	begin(&argc, &argv);
	if (rank == 0)
		while (scanf("%ld", &next) == 1)
			sum += next;
	else
		CHECK(getchar() == EOF);
	MPI_Bcast(&sum, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	if (rank == size - 1)
		printf("sum %ld\n", sum);
	MPI_Finalize();
	return 0;
}
