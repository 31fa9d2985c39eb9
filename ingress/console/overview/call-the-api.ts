import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { type LoadState, useLoaded } from '../api/use-loaded.ts';
import { usableKeys } from '../keys/key-state.ts';
import { Choice, namedOptions, Select } from '../page/fields.ts';
import { CopyButton } from '../page/identifiers.ts';
import { Panel } from '../page/loaded-view.ts';

const languages = { curl: 'curl', node: 'Node', python: 'Python' } as const;
type Language = keyof typeof languages;

/** A program that calls the API: only the key is missing, because it is shown once. */
export function programFor(language: Language, { baseUrl, model }: { baseUrl: string; model: string }): string {
  const url = `${baseUrl}/openai/v1`;
  if (language === 'curl') {
    return `curl ${url}/chat/completions \\
  -H "Authorization: Bearer $KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`;
  }
  if (language === 'node') {
    return `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: '${url}', apiKey: process.env.KEY });
const answer = await client.chat.completions.create({
  model: '${model}',
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer.choices[0].message.content);`;
  }
  return `import os
from openai import OpenAI

client = OpenAI(base_url="${url}", api_key=os.environ["KEY"])
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`;
}

/** The base address, a key and a model, and a program with them. */
export function CallTheApi({ baseUrl, keys, api }: { baseUrl: string; keys: LoadState<{ data: Key[] }>; api: Api }) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const [language, setLanguage] = useState<Language>('curl');
  const [chosen, setModel] = useState<string>();
  const names = (models.value?.data ?? []).map(({ id }) => id);
  const model = chosen ?? names[0] ?? 'model';
  const [key] = usableKeys(keys.value?.data ?? [], Date.now());
  const program = programFor(language, { baseUrl, model });
  return h(
    Panel,
    { title: 'Call the API', more: { href: '#try-it', link: 'Try it' } },
    h(
      'dl',
      { class: 'call-facts' },
      h('dt', null, 'Base URL'),
      h(
        'dd',
        null,
        h('code', null, `${baseUrl}/openai/v1`),
        h(CopyButton, { text: `${baseUrl}/openai/v1`, label: 'Copy' }),
      ),
      h('dt', null, 'API key'),
      h(
        'dd',
        null,
        key === undefined ? 'none yet' : [h('code', null, key.key), ` ${key.name} `],
        h('a', { href: '#keys?new' }, 'New key'),
      ),
    ),
    h(
      'div',
      { class: 'filters' },
      names.length > 0 &&
        h(Select<string>, { label: 'Model', options: namedOptions(names), value: model, change: setModel }),
      h(Choice<Language>, { legend: 'Language', options: languages, chosen: language, choose: setLanguage }),
    ),
    h(
      'pre',
      { class: 'program', tabIndex: 0, 'aria-label': `Program in ${languages[language]}` },
      h('code', null, program),
    ),
    h('div', { class: 'actions tight' }, h(CopyButton, { text: program, label: 'Copy' })),
  );
}
