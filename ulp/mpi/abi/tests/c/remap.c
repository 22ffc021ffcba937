/* Long messages from and to memory that is unmapped and mapped anew at the same address between two of them: what is received is what lies there now. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 96 << 10, ROUNDS = 240, WAYS = 6 };

/* New memory at `at`, in the place of what is there; of a file every other time, so that an old mapping of it would still be readable. */
static void map_at(void *at, int round)
{
	int file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (round & 1) {
		file = memfd_create("remap", MFD_CLOEXEC);
		CHECK(file >= 0 && ftruncate(file, LENGTH) == 0);
		flags = MAP_SHARED;
	}
	CHECK(mmap(at, LENGTH, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == at);
	if (file >= 0)
		close(file);
}

/* Where memory was taken away, so that nobody else's comes there: any thread of this process may map something. True if nobody's has. */
static int hold_place(void *at, size_t length)
{
	void *got = mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return got == at;
}

/* Takes away what lies at `*at`, one way or the other, and puts other memory there; somewhere else if somebody was faster. */
static void change(unsigned char **at, void *aside, int round)
{
	unsigned char *place = *at;
	int ours = 1;
	switch (round % WAYS) {
	case 0:
		CHECK(munmap(place, LENGTH) == 0);
		ours = hold_place(place, LENGTH);
		break;
	case 1:
		break; /* the new mapping replaces it */
	case 2:
		CHECK(mremap(place, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside);
		ours = hold_place(place, LENGTH);
		break;
	case 3:
		CHECK(madvise(place, LENGTH, MADV_DONTNEED) == 0);
		if (round % 4 == 3)
			return; /* the same mapping: empty now, or, of a file, as it was */
		break;
	case 4:
		CHECK(munmap(place + LENGTH / 2, LENGTH / 2) == 0);
		ours = hold_place(place + LENGTH / 2, LENGTH / 2);
		break;
	default:
		CHECK(mremap(place, LENGTH, LENGTH / 4, 0) == place);
		ours = hold_place(place + LENGTH / 4, LENGTH - LENGTH / 4);
		break;
	}
	if (!ours) {
		*at = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(*at != MAP_FAILED);
	}
	map_at(*at, round);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	int other = rank ^ 1;
	char *room = mmap(NULL, 3 * LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(room != MAP_FAILED);
	unsigned char *at = (unsigned char *)room;
	void *aside = room + 2 * LENGTH;
	for (int round = 0; round < ROUNDS && other < size; round++) {
		if (rank % 2 == round / WAYS % 2) {
			fill(at, LENGTH, round);
			MPI_Send(at, LENGTH, MPI_BYTE, other, 1, MPI_COMM_WORLD);
		} else {
			MPI_Recv(at, LENGTH, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(holds(at, LENGTH, round));
		}
		change(&at, aside, round);
	}
	/* The heap's end comes and goes. */
	for (int round = 0; round < 20 && other < size; round++) {
		unsigned char *top = sbrk(2 * LENGTH);
		CHECK(top != (void *)-1);
		if (rank % 2 == round % 2) {
			fill(top, LENGTH, round);
			MPI_Send(top, LENGTH, MPI_BYTE, other, 2, MPI_COMM_WORLD);
		} else {
			MPI_Recv(top, LENGTH, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(holds(top, LENGTH, round));
		}
		/* Somebody else may have moved the end meanwhile. */
		if (sbrk(0) == top + 2 * LENGTH)
			CHECK(sbrk(-2 * LENGTH) == top + 2 * LENGTH);
	}
	return end("remap");
}
