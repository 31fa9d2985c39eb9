import { useState } from 'preact/hooks';
import type { FullKey } from '../keys/held-keys.ts';
import type { Draft } from './endpoints/tried-endpoint.ts';
import { useRun } from './use-run.ts';

/** What the page "Try it" holds while the console is open: in the memory of this page only. */
export interface Trial {
  /** The key as it was typed. */
  readonly key: string;
  setKey(key: string): void;
  /** The endpoint by its name in the plan file; empty until one is chosen. */
  readonly endpoint: string;
  readonly draft: Draft;
  choose(endpoint: string): void;
  change(part: Partial<Draft>): void;
  readonly run: ReturnType<typeof useRun>;
  /** Starts with a key that was just created. */
  startWith(key: FullKey): void;
  /** Forgets all of it. */
  clear(): void;
}

const firstDraft: Draft = {
  model: '',
  messages: [{ role: 'user', content: 'Say hello in three languages.' }],
  input: 'Where is Bonn?',
  documents: 'Bonn is on the Rhine.\nCats sleep.',
  maxTokens: '',
  temperature: '',
  topP: '',
};

export function useTrial(): Trial {
  const [key, setKey] = useState('');
  const [endpoint, setEndpoint] = useState('');
  const [draft, setDraft] = useState(firstDraft);
  const run = useRun();
  return {
    key,
    setKey,
    endpoint,
    draft,
    run,
    choose(name) {
      setEndpoint(name);
      run.clear();
    },
    change: (part) => setDraft((before) => ({ ...before, ...part })),
    startWith: (given) => setKey(given.key),
    clear() {
      setKey('');
      setEndpoint('');
      setDraft(firstDraft);
      run.clear();
    },
  };
}
