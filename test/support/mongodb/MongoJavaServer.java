import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/**
 * A server in memory that speaks the wire protocol of MongoDB. Prints "listening <port>" once it can be used, and ends
 * when its standard input does: a test that was killed leaves no server behind.
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
    MongoServer server = new MongoServer(new MemoryBackend().version(VERSION));
    server.bind("127.0.0.1", 0);
    System.out.println("listening " + server.getLocalAddress().getPort());
    System.in.transferTo(java.io.OutputStream.nullOutputStream());
    server.shutdownNow();
    System.exit(0);
  }
}
