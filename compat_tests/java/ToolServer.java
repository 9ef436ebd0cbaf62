import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Runs the main methods of Kafka's tools in one JVM, any number at the same time.
 *
 * <p>A connection to the Unix socket that the first argument names is one run. It sends the main
 * class and the arguments as texts, a count before them, and then the bytes of stdin. It gets
 * frames: 'o' or 'e' with bytes of stdout or stderr, at last 'x' with the exit code in four bytes.
 * Before each text, stdin and what a frame has stands its length in four bytes. When the connection
 * sends a byte more, or ends, the tool has to end as after SIGTERM.
 *
 * <p>The threads of a run are a thread group: by it their output finds its way, and Kafka's {@code
 * Exit} ends that run alone. A run is over when a process would be: by {@code Exit}, or with its
 * last thread that is no daemon; then its shutdown hooks run. A tool that calls {@code System.exit}
 * ends the JVM, whose exit code is the tool's. The JVM ends with its own stdin.
 */
public final class ToolServer {
    /** What a thread that calls {@code Exit} gets, which doesn't return. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    /** A tool that runs. */
    private static final class Run extends ThreadGroup {
        private final SocketChannel channel;
        private final CompletableFuture<Integer> code = new CompletableFuture<>();
        private volatile Thread exiting;
        private InputStream in;

        Run(ThreadGroup parent, SocketChannel channel) {
            super(parent, "tool");
            this.channel = channel;
        }

        static Run current() {
            ThreadGroup group = Thread.currentThread().getThreadGroup();
            while (group != null && !(group instanceof Run)) {
                group = group.getParent();
            }
            return (Run) group;
        }

        void serve() throws Exception {
            DataInputStream request = new DataInputStream(Channels.newInputStream(channel));
            String[] texts = new String[request.readInt()];
            for (int i = 0; i < texts.length; i++) {
                texts[i] = new String(bytes(request), StandardCharsets.UTF_8);
            }
            in = new ByteArrayInputStream(bytes(request));
            String[] arguments = List.of(texts).subList(1, texts.length).toArray(String[]::new);
            Thread main = new Thread(this, () -> runMain(texts[0], arguments), "main");
            main.setDaemon(false); // as the threads that it starts will be, then
            main.start();
            inBackground(() -> waitForThreads(main));
            inBackground(this::waitForSignal);
            int status = code.get();
            if (exiting == main) {
                main.join(); // what it has opened, it closes
            }
            List<Thread> hooks = takeShutdownHooks();
            hooks.forEach(Thread::start);
            for (Thread hook : hooks) {
                hook.join();
            }
            send('x', ByteBuffer.allocate(4).putInt(0, status));
        }

        private static byte[] bytes(DataInputStream request) throws IOException {
            return request.readNBytes(request.readInt());
        }

        private void runMain(String name, String[] arguments) {
            try {
                Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException thrown) {
                uncaughtException(Thread.currentThread(), thrown.getCause());
                code.complete(1);
            } catch (ReflectiveOperationException thrown) {
                uncaughtException(Thread.currentThread(), thrown);
                code.complete(1);
            }
        }

        @Override
        public void uncaughtException(Thread thread, Throwable thrown) {
            if (!(thrown instanceof Exited)) {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                thrown.printStackTrace();
            }
        }

        private void waitForThreads(Thread main) throws InterruptedException {
            for (Thread next = main; next != null; next = lastingThread()) {
                next.join();
            }
            code.complete(0);
        }

        private Thread lastingThread() {
            Thread[] threads = new Thread[activeCount() + 100];
            int count = enumerate(threads);
            return Arrays.stream(threads, 0, count).filter(t -> !t.isDaemon()).findAny().orElse(null);
        }

        private void waitForSignal() throws IOException {
            try {
                channel.read(ByteBuffer.allocate(1));
                code.complete(143);
            } catch (AsynchronousCloseException ended) {
                // The tool has ended by itself.
            }
        }

        /** The hooks that this run has told the JVM, which Java itself doesn't show. */
        private List<Thread> takeShutdownHooks() throws ReflectiveOperationException {
            Class<?> registry = Class.forName("java.lang.ApplicationShutdownHooks");
            Field hooks = registry.getDeclaredField("hooks");
            hooks.setAccessible(true);
            synchronized (registry) {
                List<Thread> mine = new ArrayList<>();
                for (Object hook : ((Map<?, ?>) hooks.get(null)).keySet()) {
                    if (hook instanceof Thread thread && thread.getThreadGroup() == this) {
                        mine.add(thread);
                    }
                }
                mine.forEach(Runtime.getRuntime()::removeShutdownHook);
                return mine;
            }
        }

        Error exit(int status) {
            if (code.complete(status)) {
                exiting = Thread.currentThread();
            }
            return new Exited();
        }

        /** Send a frame; one whose reader has gone, or that a process wouldn't print, is dropped. */
        synchronized void send(char kind, ByteBuffer bytes) {
            if (kind != 'x' && Thread.currentThread() == exiting) {
                return;
            }
            ByteBuffer head = ByteBuffer.allocate(5).put((byte) kind).putInt(bytes.remaining()).flip();
            ByteBuffer[] frame = {head, bytes};
            try {
                while (bytes.hasRemaining()) {
                    channel.write(frame);
                }
            } catch (IOException gone) {
                code.complete(143);
            }
        }
    }

    /** What all tools have as stdin. */
    private static final class Input extends InputStream {
        @Override
        public int read() throws IOException {
            return Run.current().in.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int count) throws IOException {
            return Run.current().in.read(bytes, offset, count);
        }
    }

    /** What all tools have as stdout, or stderr. */
    private static final class Output extends OutputStream {
        private final char kind;
        private final OutputStream own;

        Output(char kind, OutputStream own) {
            this.kind = kind;
            this.own = own;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int count) throws IOException {
            Run run = Run.current();
            if (run == null) {
                own.write(bytes, offset, count);
            } else if (count > 0) {
                run.send(kind, ByteBuffer.wrap(bytes, offset, count));
            }
        }
    }

    private interface Task {
        void run() throws Exception;
    }

    private static void inBackground(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (Exception thrown) {
                thrown.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void interceptExit() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before44) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ending = Proxy.newProxyInstance(
                exit.getClassLoader(),
                new Class<?>[] {procedure},
                (proxy, method, arguments) -> {
                    throw Run.current().exit((Integer) arguments[0]);
                });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ending);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, ending);
    }

    private static PrintStream printTo(char kind, PrintStream own) {
        return new PrintStream(new Output(kind, own), true, Charset.defaultCharset());
    }

    public static void main(String[] arguments) throws Exception {
        InputStream in = System.in;
        PrintStream out = System.out;
        System.setIn(new Input());
        System.setOut(printTo('o', System.err));
        System.setErr(printTo('e', System.err));
        interceptExit();
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(arguments[0]));
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        inBackground(() -> {
            while (true) {
                SocketChannel channel = server.accept();
                inBackground(() -> {
                    try (channel) {
                        new Run(group, channel).serve();
                    }
                });
            }
        });
        out.println("ready");
        while (in.read() >= 0) {
        }
        Runtime.getRuntime().halt(0);
    }
}
