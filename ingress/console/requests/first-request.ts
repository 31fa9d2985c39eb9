import { h } from 'preact';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { CopyButton } from '../page/identifiers.ts';

type Props = { api: Api; baseUrl: string };

/** For an account without any request: how to send one. The page shows it when it comes. */
export function FirstRequest({ api, baseUrl }: Props) {
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const key = keys.value?.data.find(({ state }) => state === 'active');
  const model = models.value?.data.find(({ endpoints }) => endpoints.includes('chat'))?.id ?? 'MODEL';
  const command = firstCommand(baseUrl, model);
  return h(
    'section',
    { class: 'card', 'aria-labelledby': 'first-request' },
    h('h2', { id: 'first-request' }, 'Send a first request'),
    h(
      'p',
      null,
      key === undefined
        ? [h('a', { key: 'create', href: '#keys' }, 'Create a key'), ', and put it into KEY:']
        : ['Put your key ', h('strong', { key: 'name' }, key.name), ' into KEY:'],
    ),
    h('pre', { tabIndex: 0, 'aria-label': 'The request as a curl command' }, h('code', null, command)),
    h('div', { class: 'actions' }, h(CopyButton, { text: command, label: 'Copy' })),
    h('p', { class: 'waiting', role: 'status' }, 'Waiting for the first request …'),
  );
}

function firstCommand(baseUrl: string, model: string): string {
  return [
    `curl ${baseUrl}/v1/chat/completions \\`,
    `  -H "authorization: Bearer $KEY" -H 'content-type: application/json' \\`,
    `  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join('\n');
}
