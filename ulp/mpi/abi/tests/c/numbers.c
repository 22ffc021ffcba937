/* Handles have numbers by their names of before the ABI, too, and these names are functions. */
#include "check.h"

int main(int argc, char **argv)
{
	MPI_Comm (*from)(MPI_Fint) = MPI_Comm_f2c;
	MPI_Comm other;
	begin(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Fint number = MPI_Comm_c2f(other);
	CHECK(number == MPI_Comm_toint(other) && number != MPI_Comm_c2f(MPI_COMM_WORLD));
	CHECK(MPI_Comm_f2c(number) == other && PMPI_Comm_f2c(number) == other && from(number) == other);
	CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL);
	CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE && MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
	CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY && MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_ENV)) == MPI_INFO_ENV);
	CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
	CHECK(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
	MPI_Comm_free(&other);
	return end("numbers");
}
