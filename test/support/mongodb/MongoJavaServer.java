import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/**
 * A server that speaks the wire protocol of MongoDB. Prints "listening <port>" once it can be used. Without arguments it
 * is in memory, and ends when its standard input does: a test that was killed leaves no server behind. With the path of a
 * file, it keeps its data there, is open to other machines on MongoDB's port, and ends on SIGTERM.
 */
public final class MongoJavaServer {
  /** The library's own 5.0 reports wire version 8; the driver wants at least 9, and a real 5.0 reports 13. */
  private static final MongoVersion VERSION = new MongoVersion() {
    @Override
    public List<Integer> getVersionArray() {
      return List.of(5, 0, 0);
    }

    @Override
    public int getWireVersion() {
      return 13;
    }
  };

  public static void main(String[] args) throws Exception {
    if (args.length > 0) {
      MongoServer server = new MongoServer(new H2Backend(args[0]).version(VERSION));
      Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
      server.bind("0.0.0.0", 27017);
      return;
    }
    MongoServer server = new MongoServer(new MemoryBackend().version(VERSION));
    server.bind("127.0.0.1", 0);
    System.out.println("listening " + server.getLocalAddress().getPort());
    System.in.transferTo(java.io.OutputStream.nullOutputStream());
    server.shutdownNow();
    System.exit(0);
  }
}
