import type { Session } from '../session/session.ts';
import { ApiFailure, brokenOff, failureOf, unreachable } from './api-failure.ts';

/** `body` is sent as JSON. `key` is an API key to call with, instead of the sign-in token. `keepalive`: it outlives the page. */
type Call = {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  body?: unknown;
  key?: string;
  signal?: AbortSignal;
  keepalive?: boolean;
};

type Transfer = { progress: Progress; signal: AbortSignal };

/** Timeout for the start of a response, and between two chunks of it. */
const silenceMs = 30_000;

/** The API, called as the user who is signed in. All calls fail with `ApiFailure`, or with the reason of their signal if it is aborted. */
export function createApi({ baseUrl, session }: { baseUrl: string; session: Session }) {
  /** Retries once with a fresh token if the API rejects this one; other errors, 401 or not, are final. */
  async function withToken<Result>(run: (token: string) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const token = await session.token();
    try {
      return await run(token);
    } catch (error) {
      if (!(error instanceof ApiFailure) || error.code !== 'INVALID_TOKEN') throw error;
      const fresh = await session.tokenAfter(token);
      signal?.throwIfAborted();
      return run(fresh);
    }
  }

  /** Returns the body of a successful response; reports its progress. */
  async function send(path: string, call: Call & { progress?: Progress }) {
    const { method = 'GET', body, key, signal, keepalive = false, progress } = call;
    const run = async (credential: string) => {
      const silence = createSilence(signal);
      try {
        const answer = await fetch(`${baseUrl}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${credential}`,
            ...(body !== undefined && { 'content-type': 'application/json' }),
          },
          ...(body !== undefined && { body: JSON.stringify(body) }),
          signal: silence.signal,
          credentials: 'omit',
          keepalive,
        }).catch(() => {
          signal?.throwIfAborted();
          throw unreachable();
        });
        const header = (name: string) => answer.headers.get(name);
        const requestId = header('x-request-id');
        const bytes = await readBody(answer, { onBytes: silence.restart, progress }).catch(() => {
          signal?.throwIfAborted();
          throw brokenOff(answer.status, requestId);
        });
        if (!answer.ok) throw failureOf({ status: answer.status, body: await bytes.text(), header });
        return bytes;
      } finally {
        silence.end();
      }
    };
    return key === undefined ? withToken(run, signal) : run(key);
  }

  return {
    /** Returns the response, whose type is the one that the API documents for this path. */
    async call<Answer>(path: string, call: Call = {}): Promise<Answer> {
      return JSON.parse(await (await send(path, call)).text()) as Answer; // the service's own answer
    },
    download: (path: string, transfer: Transfer): Promise<Blob> => send(path, transfer),
    /** `purpose=batch` and the file, as a form. */
    async upload<Answer>(file: File, transfer: Transfer): Promise<Answer> {
      const post = (token: string) => postForm({ url: `${baseUrl}/v1/files`, token, file, ...transfer });
      return JSON.parse(await withToken(post, transfer.signal)) as Answer; // the service's own answer
    },
  };
}

export type Api = ReturnType<typeof createApi>;

/** A signal that is aborted with another one, or after `silenceMs` without data. */
function createSilence(signal: AbortSignal | undefined) {
  const silent = new AbortController();
  const begin = () => setTimeout(() => silent.abort(), silenceMs);
  let timer = begin();
  return {
    signal: signal === undefined ? silent.signal : AbortSignal.any([signal, silent.signal]),
    restart() {
      clearTimeout(timer);
      timer = begin();
    },
    end: () => clearTimeout(timer),
  };
}

type DownloadOptions = { onBytes: () => void; progress: Progress | undefined };

async function readBody({ body, headers }: Response, { onBytes, progress }: DownloadOptions): Promise<Blob> {
  if (body === null) return new Blob();
  // A compressed body is longer than its content-length once it is decompressed.
  const length = headers.has('content-encoding') ? undefined : Number(headers.get('content-length') ?? Number.NaN);
  const total = length === undefined || Number.isNaN(length) ? undefined : length;
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let received = 0;
  const reader = body.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    onBytes();
    pieces.push(read.value);
    received += read.value.length;
    progress?.(received, total);
  }
  return new Blob(pieces);
}

/** Called with the bytes transferred so far, and the total if it is known. */
type Progress = (bytes: number, totalBytes: number | undefined) => void;

type Upload = { url: string; token: string; file: File; progress: Progress; signal: AbortSignal };

/**
 * Uploads a file with `purpose=batch`; returns the text of a successful response, else fails with `ApiFailure`. (`fetch` reports no upload
 * progress.)
 */
function postForm({ url, token, file, progress, signal }: Upload): Promise<string> {
  signal.throwIfAborted();
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', file);
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.open('POST', url);
    request.setRequestHeader('authorization', `Bearer ${token}`);
    request.upload.addEventListener('progress', ({ loaded, total }) => progress(loaded, total));
    request.addEventListener('load', () => {
      const { status, responseText } = request;
      if (status === 200) resolve(responseText);
      else reject(failureOf({ status, body: responseText, header: (name) => request.getResponseHeader(name) }));
    });
    request.addEventListener('error', () => reject(unreachable()));
    request.addEventListener('abort', () => reject(signal.reason));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(form);
  });
}
