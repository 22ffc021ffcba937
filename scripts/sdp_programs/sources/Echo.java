import java.io.DataInputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Random;

/** An echo server with a selector, and clients of two kinds that compare what comes back. */
class Echo {
    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1]));
        if (words[0].equals("serve")) {
            serve(address);
            return;
        }
        Thread[] clients = new Thread[16];
        boolean[] right = new boolean[clients.length];
        for (int number = 0; number < clients.length; number++) {
            int own = number;
            clients[own] = new Thread(() -> {
                try {
                    ask(address, own);
                    right[own] = true;
                } catch (Exception fault) {
                    System.out.println("client " + own + ": " + fault);
                }
            });
            clients[own].start();
        }
        boolean all = true;
        for (int number = 0; number < clients.length; number++) {
            clients[number].join();
            all &= right[number];
        }
        System.out.println(all ? "all echoes are right" : "some are wrong");
        System.exit(all ? 0 : 1);
    }

    static void serve(InetSocketAddress address) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(address, 64);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        for (;;) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(32768));
                } else {
                    carry(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    /** Reads, writes what it can, and waits for room where that is not all. */
    static void carry(SelectionKey key) throws Exception {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer bytes = (ByteBuffer) key.attachment();
        if (key.isReadable() && channel.read(bytes) < 0) {
            channel.close();
            return;
        }
        bytes.flip();
        channel.write(bytes);
        bytes.compact();
        key.interestOps((bytes.position() > 0 ? SelectionKey.OP_WRITE : 0) | (bytes.hasRemaining() ? SelectionKey.OP_READ : 0));
    }

    static void ask(InetSocketAddress address, int number) throws Exception {
        Random random = new Random(number);
        int[] lengths = {1, 100, 4096, 70000, 1 << 20};
        try (SocketChannel channel = number % 2 == 0 ? SocketChannel.open(address) : null;
                Socket socket = channel == null ? new Socket(address.getAddress(), address.getPort()) : channel.socket()) {
            for (int turn = 0; turn < 60; turn++) {
                byte[] sent = new byte[lengths[turn % lengths.length]];
                byte[] got = new byte[sent.length];
                random.nextBytes(sent);
                Thread writer = new Thread(() -> {
                    try {
                        if (channel != null) {
                            ByteBuffer bytes = ByteBuffer.wrap(sent);
                            while (bytes.hasRemaining()) channel.write(bytes);
                        } else {
                            socket.getOutputStream().write(sent);
                        }
                    } catch (Exception fault) {
                        System.out.println("writer " + number + ": " + fault);
                    }
                });
                writer.start();
                if (channel != null) {
                    ByteBuffer bytes = ByteBuffer.wrap(got);
                    while (bytes.hasRemaining()) if (channel.read(bytes) < 0) throw new Exception("the stream ended");
                } else {
                    new DataInputStream(socket.getInputStream()).readFully(got);
                }
                writer.join();
                if (!Arrays.equals(sent, got)) throw new Exception("turn " + turn + " is wrong");
            }
        }
    }
}
