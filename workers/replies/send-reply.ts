import type { ApiError } from '../../shared/errors.ts';
import { packError } from '../../shared/errors.ts';
import type { ReplyContent, Served, TokenUsage } from '../../shared/jobs/replies.ts';
import type { PostedReply, ReplyFrames } from './reply-frames.ts';

/** Sends the replies of one run of a job to its ingress, in order and numbered. */
export interface ReplySender {
  /** Is sent before the next reply, after at most 15 ms. It is left out if the next reply is the last one. */
  started(control: string, queueMs: number): void;
  /**
   * Text for the client, and at least how many tokens the model has written up to its end. The first text is sent at once, further
   * text within a few milliseconds. Await the returned promise before sending more.
   */
  chunk(text: string, tokens: number): Promise<void>;
  /** Both resolve when the reply is in the stream, or when that stream has no reader any more. */
  end(data: { body?: string; usage: TokenUsage }): Promise<void>;
  error(error: ApiError): Promise<void>;
  /** Text of an earlier run was sent, so this run must not begin. */
  interrupted(promptTokens: number): Promise<void>;
}

const openingMs = 10;
/** Less than an ingress buffers for one client, for any characters: all of it may arrive at once. */
const unsentCharactersMax = 262_144;

export function createReplySender(deps: {
  frames: ReplyFrames;
  replyTo: string;
  requestId: string;
  run: number;
  /** The ingress is gone, and its client with it. Called at most once. */
  onGone: () => void;
  /** The first text is about to be sent. */
  onFirstText?: () => void;
  /** Is sent with the first text, or else with the last reply. */
  served?: () => Served | undefined;
}): ReplySender {
  const { frames, replyTo, requestId, run, onGone, onFirstText, served = () => undefined } = deps;
  let sequence = 0;
  let opening: { send: () => void; timer: NodeJS.Timeout } | undefined;
  let latestText: { posted: PostedReply; characters: number } | undefined;
  let unsent = 0;
  let gone = false;
  let latest: Promise<void> = Promise.resolve();

  function openLater(content: ReplyContent): void {
    const open = () => {
      opening = undefined;
      post(content, { isUrgent: false });
    };
    opening = { send: open, timer: setTimeout(open, openingMs) };
  }

  /** Cancels the opening, and returns a function that sends it now. */
  function skipOpening(): (() => void) | undefined {
    const skipped = opening;
    clearTimeout(skipped?.timer);
    opening = undefined;
    return skipped?.send;
  }

  /** The last reply needs no opening before it: it has all that the ingress still needs. */
  function sendLast(content: ReplyContent): Promise<void> {
    skipOpening();
    if (!gone) post(latestText === undefined ? withServed(content, served()) : content, { isUrgent: true });
    return latest;
  }

  function post(content: ReplyContent, how: { isUrgent: boolean }): PostedReply {
    const posted = frames.post(replyTo, { request: requestId, run, sequence: sequence++, ...content }, how);
    latest = posted.sent.then((isThere) => {
      if (isThere || gone) return;
      gone = true;
      onGone();
    });
    // A failed send is handled where the latest is awaited. An earlier one that is not awaited must not end the process.
    latest.catch(() => {});
    return posted;
  }

  function postText(text: string, tokens: number): void {
    const isFirst = latestText === undefined;
    if (isFirst) onFirstText?.();
    skipOpening()?.();
    const content: ReplyContent = { kind: 'chunk', data: text, tokens };
    const posted = post(isFirst ? withServed(content, served()) : content, { isUrgent: isFirst });
    const waiting = { posted, characters: text.length };
    latestText = waiting;
    const onSent = () => {
      unsent -= waiting.characters;
    };
    posted.sent.then(onSent, onSent);
  }

  return {
    started: (control, queueMs) => openLater({ kind: 'started', data: { control, queueMs } }),
    async chunk(text, tokens) {
      if (gone || text === '') return;
      unsent += text.length;
      if (latestText?.posted.add(text, tokens)) latestText.characters += text.length;
      else postText(text, tokens);
      if (unsent > unsentCharactersMax) await latest;
    },
    end: (data) => sendLast({ kind: 'end', data }),
    error: (error) => sendLast({ kind: 'error', data: packError(error) }),
    interrupted: (promptTokens) => sendLast({ kind: 'interrupted', data: { promptTokens } }),
  };
}

function withServed(content: ReplyContent, served: Served | undefined): ReplyContent {
  return served === undefined ? content : { ...content, served };
}
