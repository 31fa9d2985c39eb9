import { isDeepStrictEqual } from 'node:util';
import { Agent, buildConnector } from 'undici';
import { readTlsFiles, secureContextOf, type TlsFiles, type TlsTexts } from '../plan-file/backend-files.ts';
import type { Backend } from '../plan-file/plan-file.ts';
import { gatherReads, onread } from './gather-reads.ts';

/**
 * `onUnreadable`: called once until the certificates can be used again, while the earlier ones stay in use. The error has nothing of the
 * files.
 */
type Deps = { connectMs: () => number; onUnreadable: (files: TlsFiles, error: unknown) => void };

/** undici's own timeouts for answers are off, because they do not cover a backend that falls silent. */
export function createBackendAgents(deps: Deps) {
  const common = createAgent({ ...deps, files: {} });
  /** As many as there are different settings in the plan files of this process. */
  const own = new Map<string, Agent>();

  function ownAgent({ caFile, clientCertFile, clientKeyFile }: TlsFiles): Agent {
    const files = { caFile, clientCertFile, clientKeyFile };
    const name = JSON.stringify(files);
    const agent = own.get(name) ?? createAgent({ ...deps, files });
    own.set(name, agent);
    return agent;
  }

  return {
    of: (backend: TlsFiles): Agent => (hasCertificates(backend) ? ownAgent(backend) : common),
    async [Symbol.asyncDispose]() {
      await Promise.all([common, ...own.values()].map((agent) => agent.destroy()));
    },
  };
}

/** The connections to backends: of one agent, except those of backends with certificates of their own. */
export type BackendAgents = ReturnType<typeof createBackendAgents>;

function hasCertificates({ caFile, clientCertFile }: Pick<Backend, 'caFile' | 'clientCertFile'>): boolean {
  return caFile !== undefined || clientCertFile !== undefined;
}

type Connector = { timeout: number; texts: TlsTexts | undefined; connect: buildConnector.connector };

/** The files are read for each new connection: a certificate that is replaced is used by the next one. */
function createAgent({ connectMs, onUnreadable, files }: Deps & { files: TlsFiles }): Agent {
  let latest: Connector | undefined;
  let isFailing = false;

  function connectorFor(texts: TlsTexts | undefined): Connector {
    if (latest?.timeout !== connectMs() || !isDeepStrictEqual(latest.texts, texts))
      latest = createConnector(connectMs(), texts);
    return latest;
  }

  /** While the files are being replaced, they may be missing or not fit each other: then the earlier ones stay in use. */
  async function connectorOfFiles(): Promise<Connector> {
    try {
      const connector = connectorFor(await readTlsFiles(files));
      isFailing = false;
      return connector;
    } catch (error) {
      if (latest === undefined) throw error;
      if (!isFailing) onUnreadable(files, error);
      isFailing = true;
      return latest;
    }
  }

  return new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect(options, callback) {
      if (!hasCertificates(files)) connectorFor(undefined).connect(options, callback);
      else
        connectorOfFiles().then(
          ({ connect }) => connect(options, callback),
          (error: Error) => callback(error, null),
        );
    },
  });
}

function createConnector(timeout: number, texts: TlsTexts | undefined): Connector {
  const tls = texts === undefined ? {} : { secureContext: secureContextOf(texts) };
  // With HTTP/2, calls would share a connection, and its text could not be gathered.
  const connect = buildConnector({ timeout, onread, allowH2: false, ...tls });
  return {
    timeout,
    texts,
    connect(options, callback) {
      connect(options, (...[error, socket]) => {
        if (socket) gatherReads(socket); // after an error it has none, whatever its type says
        callback(...([error, socket] as Parameters<buildConnector.Callback>));
      });
    },
  };
}
