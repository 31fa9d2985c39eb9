import { failureOf, unreachable } from './api-failure.ts';

/** Called with the bytes transferred so far, and the total if it is known. */
export type Progress = (bytes: number, totalBytes: number | undefined) => void;

type Upload = { url: string; token: string; file: File; progress: Progress; signal: AbortSignal };

/**
 * Uploads a file with `purpose=batch`; returns the text of a successful response, else fails with `ApiFailure`. (`fetch` reports no upload
 * progress.)
 */
export function postForm({ url, token, file, progress, signal }: Upload): Promise<string> {
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
