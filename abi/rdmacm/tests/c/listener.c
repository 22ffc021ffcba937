/*
 * Listens for connections at localhost, says so by a byte, and takes no notice of anything until
 * its input ends.
 */
#include "cm.h"

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in local = address("127.0.0.1", 0);
	struct rdma_cm_id *id = NULL;
	char end;

	CHECK(channel);
	EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	EQ(rdma_listen(id, 4), 0);
	EQ(write(1, "l", 1), 1);
	EQ(read(0, &end, 1), 0);
	EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
