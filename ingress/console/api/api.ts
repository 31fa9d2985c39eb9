import type { Session } from '../session/session.ts';
import { failureOf, unreachable } from './api-failure.ts';

/** `body` is sent as JSON. */
type Call = { method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'; body?: unknown; signal?: AbortSignal };
type Progress = (sentBytes: number, totalBytes: number) => void;

/** The API as the person who is signed in. Everything fails with `ApiFailure`, or `AbortError` where its signal says so. */
export interface Api {
  /** The answer, which is of the shape that the API documents for this path. */
  call<Answer>(path: string, call?: Call): Promise<Answer>;
  download(path: string): Promise<Blob>;
  /** `purpose=batch` and the file, as a form; `progress` is called as its bytes go out. */
  upload<Answer>(file: File, options: { progress: Progress; signal: AbortSignal }): Promise<Answer>;
}

const requestMs = 30_000;

export function createApi({ baseUrl, session }: { baseUrl: string; session: Session }): Api {
  /** Once more with a fresh token where the API does not take this one any more. */
  async function withToken<Result>(run: (token: string) => Promise<Result>, isRefused: (result: Result) => boolean) {
    const token = await session.token();
    const result = await run(token);
    return isRefused(result) ? run(await session.tokenAfter(token)) : result;
  }

  async function send(path: string, { method = 'GET', body, signal }: Call): Promise<Response> {
    const limit = AbortSignal.timeout(requestMs);
    const answer = await withToken(
      (token) =>
        fetch(`${baseUrl}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            ...(body !== undefined && { 'content-type': 'application/json' }),
          },
          ...(body !== undefined && { body: JSON.stringify(body) }),
          signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
          credentials: 'omit',
        }).catch((error: unknown) => {
          throw signal?.aborted ? error : unreachable();
        }),
      ({ status }) => status === 401,
    );
    if (!answer.ok) throw failureOf(answer.status, await answer.text(), answer.headers.get('x-request-id'));
    return answer;
  }

  return {
    async call<Answer>(path: string, call: Call = {}) {
      return (await (await send(path, call)).json()) as Answer; // the service's own answer
    },
    async download(path) {
      return (await send(path, {})).blob();
    },
    async upload<Answer>(file: File, { progress, signal }: { progress: Progress; signal: AbortSignal }) {
      const sendOnce = (token: string) => postForm({ url: `${baseUrl}/v1/files`, token, file, progress, signal });
      const { status, text, requestId } = await withToken(sendOnce, (answer) => answer.status === 401);
      if (status !== 200) throw failureOf(status, text, requestId);
      return JSON.parse(text) as Answer; // the service's own answer
    },
  };
}

type Upload = { url: string; token: string; file: File; progress: Progress; signal: AbortSignal };
type Uploaded = { status: number; text: string; requestId: string | null };

/** `fetch` tells nothing of what has been sent. */
function postForm({ url, token, file, progress, signal }: Upload): Promise<Uploaded> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', file);
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.open('POST', url);
    request.setRequestHeader('authorization', `Bearer ${token}`);
    request.upload.addEventListener('progress', ({ loaded, total }) => progress(loaded, total));
    request.addEventListener('load', () =>
      resolve({
        status: request.status,
        text: request.responseText,
        requestId: request.getResponseHeader('x-request-id'),
      }),
    );
    request.addEventListener('error', () => reject(unreachable()));
    request.addEventListener('abort', () => reject(signal.reason));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(form);
  });
}
