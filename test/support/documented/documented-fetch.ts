import { requireDocumented, type SeenAnswer, undocumentedInEvent } from './check-answer.ts';

type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * `fetch` for clients of the public listener, which throws if a response is not as documented: its status, its headers, its type and its
 * body, JSON at once and the events of a stream one by one. A body that breaks off is not reported here.
 */
export const documentedFetch: Fetch = async (url, init) => {
  const response = await fetchUnlessUnread(url, init);
  const { pathname, search } = new URL(url instanceof Request ? url.url : url);
  const method = init?.method ?? (url instanceof Request ? url.method : 'GET');
  const check = (body: string) => requireDocumented({ ...seen(response), method, path: pathname + search, body });
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream') && response.body !== null) {
    check('');
    return sameAs(response, response.body.pipeThrough(checkingEvents(pathname)));
  }
  if (type.startsWith('application/octet-stream')) {
    check('');
    return response;
  }
  return wholeAnswer(response, check);
};

/**
 * `fetch` that repeats a request of which the server has read nothing, as SDKs do (RFC 9110 15.5.9): it was sent on a connection that an
 * aborted request had left unused, at the moment when the server closed that.
 */
const fetchUnlessUnread: Fetch = async (url, init) => {
  const response = await fetch(url, init);
  const isUnread =
    response.status === 408 && (await response.clone().text()).includes('The request did not arrive in time.');
  const canRepeat = !(url instanceof Request) && (init?.body == null || typeof init.body === 'string');
  return isUnread && canRepeat ? fetch(url, init) : response;
};

function seen({ status, headers }: Response): Pick<SeenAnswer, 'status' | 'header'> {
  return { status, header: (name) => headers.get(name) ?? undefined };
}

async function wholeAnswer(response: Response, check: (body: string) => void): Promise<Response> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    return sameAs(response, new ReadableStream({ start: (controller) => controller.error(error) }));
  }
  check(text);
  return sameAs(response, text === '' ? null : text);
}

function sameAs({ status, statusText, headers }: Response, body: ReadableStream | string | null): Response {
  return new Response(body, { status, statusText, headers });
}

/** Passes a stream on, and fails it at the first event that is not documented. */
function checkingEvents(path: string): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let rest = '';
  return new TransformStream({
    transform(bytes, controller) {
      const events = (rest + decoder.decode(bytes, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const faults = undocumentedInEvent(path, event);
        if (faults.length > 0) throw new Error(`not as documented: ${faults.join('; ')}: ${event.slice(0, 500)}`);
      }
      controller.enqueue(bytes);
    },
  });
}
