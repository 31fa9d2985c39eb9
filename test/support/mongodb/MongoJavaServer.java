import de.bwaldvogel.mongo.MongoDatabase;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.QueryParameters;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.backend.memory.MemoryCollection;
import de.bwaldvogel.mongo.backend.memory.MemoryDatabase;
import de.bwaldvogel.mongo.bson.Document;
import java.util.ArrayList;
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

  /**
   * Finds copies. The library sends the documents that it keeps, while updates change them in place: a reader could get
   * some fields from before an update and others from after it. MongoDB reads a document as a whole.
   */
  private static final class Collection extends MemoryCollection {
    Collection(MongoDatabase database, String name, CollectionOptions options, CursorRegistry cursors) {
      super(database, name, options, cursors);
    }

    @Override
    public synchronized QueryResult handleQuery(QueryParameters parameters) {
      QueryResult found = super.handleQuery(parameters);
      List<Document> copies = new ArrayList<>();
      for (Document document : found) copies.add(document.cloneDeeply());
      return new QueryResult(copies, found.getCursorId());
    }
  }

  private static final class Database extends MemoryDatabase {
    private final CursorRegistry cursors;

    Database(String name, CursorRegistry cursors) {
      super(name, cursors);
      this.cursors = cursors;
    }

    @Override
    protected MemoryCollection openOrCreateCollection(String name, CollectionOptions options) {
      return new Collection(this, name, options, cursors);
    }
  }

  private static final class Backend extends MemoryBackend {
    @Override
    public MemoryDatabase openOrCreateDatabase(String name) {
      return new Database(name, getCursorRegistry());
    }
  }

  public static void main(String[] args) throws Exception {
    if (args.length > 0) {
      MongoServer server = new MongoServer(new H2Backend(args[0]).version(VERSION));
      Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
      server.bind("0.0.0.0", 27017);
      return;
    }
    MongoServer server = new MongoServer(new Backend().version(VERSION));
    server.bind("127.0.0.1", 0);
    System.out.println("listening " + server.getLocalAddress().getPort());
    System.in.transferTo(java.io.OutputStream.nullOutputStream());
    server.shutdownNow();
    System.exit(0);
  }
}
