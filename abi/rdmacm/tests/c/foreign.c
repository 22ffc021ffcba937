/*
 * Beside a libibverbs that is not ours: the library loads, says no, and says why.
 */
#include "cm.h"

int main(void)
{
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	int count = 7;

	errno = 0;
	CHECK(!rdma_create_event_channel());
	EQ(errno, ENODEV);
	REFUSED(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), ENODEV);
	REFUSED(rdma_getaddrinfo("127.0.0.1", "1", NULL, &res), ENODEV);
	errno = 0;
	CHECK(!rdma_get_devices(&count));
	EQ(errno, ENODEV);
	EQ(count, 0);
	EQ(strcmp(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED), "RDMA_CM_EVENT_ESTABLISHED"), 0);
	return 0;
}
