import type { Redis } from 'ioredis';
import type { ApiError } from '../../shared/errors.ts';
import { packError } from '../../shared/errors.ts';
import { encodeReply, type ReplyContent, type Usage } from '../../shared/replies.ts';
import { appendReply } from './append-reply.ts';

/** What one run of a job says to the ingress that waits, in order and numbered. */
export interface ReplySender {
  started(control: string): void;
  /**
   * Text for the client, and how many tokens the model has written up to its end, at least. It is gathered for up to 10 ms; wait
   * for the returned promise before sending more.
   */
  chunk(text: string, tokens: number): Promise<void>;
  /** Both resolve when the reply is in the stream, or when nobody reads that stream any more. */
  end(data: { body?: string; usage: Usage }): Promise<void>;
  error(error: ApiError): Promise<void>;
  /** Text of an earlier run was sent, so that this one may not begin. */
  interrupted(promptTokens: number): Promise<void>;
}

type Parts = {
  redis: Redis;
  replyTo: string;
  requestId: string;
  run: number;
  /** The ingress is gone, and its client with it. Called at most once. */
  onGone: () => void;
  /** The first text is about to be sent. */
  onFirstText?: () => void;
};

const gatherMs = 10;
const gatheredCharactersMax = 65_536;
/** Less than an ingress buffers for one client, whatever the characters: it may all arrive at once. */
const unsentCharactersMax = 262_144;

export function createReplySender({ redis, replyTo, requestId, run, onGone, onFirstText }: Parts): ReplySender {
  let sequence = 0;
  let gathered = '';
  let tokensWritten = 0;
  let timer: NodeJS.Timeout | undefined;
  let unsent = 0;
  let gone = false;
  let sentText = false;
  let latest: Promise<void> = Promise.resolve();

  function send(content: ReplyContent): Promise<void> {
    if (gone) return latest;
    const fields = encodeReply({ request: requestId, run, sequence: sequence++, ...content });
    latest = appendReply(redis, replyTo, fields).then((appended) => {
      if (appended || gone) return;
      gone = true;
      onGone();
    });
    // Failed sends surface where the latest is awaited; an earlier one that nobody awaits must not end the process.
    latest.catch(() => {});
    return latest;
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (gathered === '') return latest;
    const text = gathered;
    gathered = '';
    unsent += text.length;
    if (!sentText) onFirstText?.();
    sentText = true;
    return send({ kind: 'chunk', data: text, tokens: tokensWritten }).finally(() => {
      unsent -= text.length;
    });
  }

  return {
    started(control) {
      void send({ kind: 'started', data: { control } });
    },
    async chunk(text, tokens) {
      gathered += text;
      tokensWritten = tokens;
      // The first text goes at once: it is what the client's time to first token is made of.
      if (!sentText || gathered.length >= gatheredCharactersMax) {
        const flushed = flush();
        if (unsent > unsentCharactersMax) await flushed;
        else flushed.catch(() => {});
        return;
      }
      timer ??= setTimeout(() => void flush().catch(() => {}), gatherMs);
    },
    async end(data) {
      flush().catch(() => {});
      await send({ kind: 'end', data });
    },
    async error(error) {
      flush().catch(() => {});
      await send({ kind: 'error', data: packError(error) });
    },
    interrupted: (promptTokens) => send({ kind: 'interrupted', data: { promptTokens } }),
  };
}
