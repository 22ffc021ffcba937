/* Each rank says who it is. */
#include "check.h"

int main(int argc, char **argv)
{
	char name[MPI_MAX_PROCESSOR_NAME], version[MPI_MAX_LIBRARY_VERSION_STRING];
	int length, major, minor, flag;

	CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && !flag);
	begin(&argc, &argv);
	CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag);
	CHECK(MPI_Get_processor_name(name, &length) == MPI_SUCCESS && (int)strlen(name) == length);
	CHECK(MPI_Get_library_version(version, &length) == MPI_SUCCESS && strstr(version, "Ferriband"));
	CHECK(MPI_Get_version(&major, &minor) == MPI_SUCCESS && major == MPI_VERSION && minor == MPI_SUBVERSION);
	CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == 1);
	double before = MPI_Wtime();
	CHECK(MPI_Wtime() >= before && MPI_Wtick() < 1e-3);
	printf("hello from %d of %d\n", rank, size);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag);
	return 0;
}
