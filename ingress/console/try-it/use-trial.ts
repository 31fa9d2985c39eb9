import { useRef, useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import type { FullKey } from '../keys/held-keys.ts';
import { type ConsoleKey, createConsoleKey } from './console-key.ts';
import { type Composition, isEmpty, messagesOf, newTurn, type Turn, withReply } from './conversation.ts';
import { type Call, streamAnswer } from './stream-answer.ts';

/** What the page "Try it" holds while the console is open: in the memory of this page only. */
export interface Trial {
  /** A key of the user, as it was typed; empty: the page makes one. */
  readonly ownKey: string;
  setOwnKey(key: string): void;
  /** Starts with a key that was just created. */
  startWith(key: FullKey): void;
  readonly consoleKey: ConsoleKey;
  /** The endpoint by its name in the plan file; empty until one is chosen. */
  readonly endpoint: string;
  choose(endpoint: string): void;
  readonly composition: Composition;
  change(part: Partial<Composition>): void;
  /** The conversation, oldest first. */
  readonly turns: readonly Turn[];
  readonly isRunning: boolean;
  /** Sends the composition to these models, side by side. It continues while another page is shown. */
  send(request: TrialRequest): Promise<void>;
  stop(): void;
  /** Stops, and forgets the conversation. */
  clear(): void;
  /** Forgets all of it. */
  forget(): void;
}

type TrialRequest = Pick<Call, 'baseUrl' | 'docsUrl' | 'endpoint'> & { models: readonly string[] };

const first: Composition = {
  model: '',
  comparedModel: '',
  system: '',
  message: 'Say hello in three languages.',
  input: 'Where is Bonn?',
  documents: 'Bonn is on the Rhine.\nCats sleep.',
  maxTokens: '',
  temperature: '',
  topP: '',
};

export function useTrial(api: Api): Trial {
  const [ownKey, setOwnKey] = useState('');
  const [endpoint, choose] = useState('');
  const [composition, setComposition] = useState(first);
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [consoleKey] = useState(() => createConsoleKey(api));
  const running = useRef<AbortController>(undefined);
  const isRunning = turns.some(({ replies }) => replies.some(({ state }) => state === 'running'));

  async function send({ models, ...asked }: TrialRequest): Promise<void> {
    if (isRunning || isEmpty(composition, asked.endpoint)) return;
    const aborting = new AbortController();
    const { signal } = aborting;
    running.current = aborting;
    const id = (turns.at(-1)?.id ?? 0) + 1;
    setTurns([...turns, { id, ...newTurn(composition, asked.endpoint, models) }]);
    if (asked.endpoint.takes === 'messages') setComposition({ ...composition, message: '' });
    const replies = models.map(async (model, column) => {
      const change = (part: Parameters<typeof withReply>[2]) => setTurns((now) => withReply(now, { id, column }, part));
      const messages = messagesOf(composition, turns, column);
      const request = asked.endpoint.requestOf({ ...composition, model, messages });
      const run = (key: string) => {
        signal.throwIfAborted();
        return streamAnswer({ ...asked, key, request, signal, show: (answer) => signal.aborted || change({ answer }) });
      };
      try {
        await (ownKey.trim() === '' ? consoleKey.use(run) : run(ownKey.trim()));
        change({ state: 'done' });
      } catch (error) {
        change(signal.aborted ? { state: 'stopped' } : { state: 'failed', error });
      }
    });
    await Promise.all(replies);
  }

  function clear(): void {
    running.current?.abort();
    setTurns([]);
  }

  return {
    ownKey,
    setOwnKey,
    consoleKey,
    endpoint,
    choose,
    composition,
    turns,
    isRunning,
    send,
    clear,
    startWith: ({ key }) => setOwnKey(key),
    change: (part) => setComposition((before) => ({ ...before, ...part })),
    stop: () => running.current?.abort(),
    forget() {
      clear();
      setOwnKey('');
      choose('');
      setComposition(first);
      consoleKey.forget();
    },
  };
}
