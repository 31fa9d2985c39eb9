import { useRef, useState } from 'preact/hooks';
import type { FullKey } from '../keys/held-keys.ts';
import { type Answer, type Call, streamAnswer } from './stream-answer.ts';
import type { Draft } from './tried-endpoint.ts';

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

type Run = { name: 'idle' | 'running' | 'stopped' | 'done' } | { name: 'failed'; error: unknown };

/** One request at a time, with its answer so far. It continues while another page is shown. */
function useRun() {
  const [state, setState] = useState<Run>({ name: 'idle' });
  const [answer, setAnswer] = useState<Answer>();
  const current = useRef<AbortController>(undefined);

  async function start(call: Omit<Call, 'signal' | 'show'>): Promise<void> {
    if (state.name === 'running') return;
    const aborting = new AbortController();
    const { signal } = aborting;
    current.current = aborting;
    /** The view may show another request by now. */
    const isShown = () => current.current === aborting;
    setState({ name: 'running' });
    setAnswer(undefined);
    try {
      await streamAnswer({ ...call, signal, show: (shown) => isShown() && !signal.aborted && setAnswer(shown) });
      if (isShown()) setState({ name: 'done' });
    } catch (error) {
      if (isShown()) setState(signal.aborted ? { name: 'stopped' } : { name: 'failed', error });
    }
  }

  return {
    state,
    answer,
    start,
    stop: () => current.current?.abort(),
    /** Stops, and shows nothing of the request. */
    clear(): void {
      current.current?.abort();
      current.current = undefined;
      setState({ name: 'idle' });
      setAnswer(undefined);
    },
  };
}
