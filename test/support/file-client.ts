import { documentedFetch } from './documented/documented-fetch.ts';

/** One line of an input file. */
export const line = (id: string, { model = 'small-chat', content = 'Hi' } = {}) =>
  JSON.stringify({
    custom_id: id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model, messages: [{ role: 'user', content }] },
  });

type Shown = { id: string; [field: string]: unknown };

/** Files and batches over plain HTTP, at the first ingress of the stack, with one credential. Each call throws if it is refused. */
export function createFileClient(stack: { ingresses: readonly { url: string }[] }, bearer: string) {
  async function ask(method: string, path: string, body?: FormData | object): Promise<Shown> {
    const isForm = body instanceof FormData;
    const response = await documentedFetch(`${stack.ingresses[0]?.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, ...(body && !isForm && { 'content-type': 'application/json' }) },
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
    });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was refused: ${response.status} ${answer}`);
    return JSON.parse(answer) as Shown; // a response of the service itself
  }

  return {
    upload(text: string, filename = 'in.jsonl') {
      const form = new FormData();
      form.set('purpose', 'batch');
      form.set('file', new Blob([text]), filename);
      return ask('POST', '/v1/files', form);
    },
    remove: (id: string) => ask('DELETE', `/v1/files/${id}`),
    submitBatch: (file: string) =>
      ask('POST', '/v1/batches', {
        input_file_id: file,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      }),
    files: () => ask('GET', '/v1/files'),
  };
}
