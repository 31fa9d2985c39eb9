import { type ApiError, replyLost } from '../../shared/errors.ts';
import { packError, type ReplyContent, type RunProgress, type TokenUsage } from '../../shared/jobs/replies.ts';
import type { PostedReply, ReplyFrames } from './reply-frames.ts';
import { type AnswerBody, bytesOfBody, type PieceOptions, sendPieces, textOfBody } from './send-pieces.ts';

/** Sends the replies of one run of a job to its ingress, in order and numbered. */
export interface ReplySender {
  /** Is sent before the next reply, after at most 15 ms. It is left out if the next reply is the last one. */
  started(control: string, queueMs: number): void;
  /**
   * Text for the client, and at least how many tokens the model has written up to its end. The first text is sent at once, further
   * text within a few milliseconds. Await the returned promise before sending more.
   */
  chunk(text: string, tokens: number): Promise<void>;
  /**
   * Both resolve when the reply is in the stream, or when that stream has no reader any more. `finalEvents` arrive together with the end,
   * or not at all: after an event that says that the stream is complete, no error may come. A large body is sent in pieces, as its client
   * reads it.
   */
  end(data: { body?: AnswerBody; finalEvents?: string; usage: TokenUsage }): Promise<void>;
  error(error: ApiError): Promise<void>;
  /** Text of an earlier run was sent, so this run must not begin. */
  interrupted(promptTokens: number): Promise<void>;
}

/** A larger body is sent in pieces. */
const wholeBytesMax = 65_536;
const openingMs = 10;
/** Less than an ingress buffers for one client, for any characters: all of it may arrive at once. Final events are not counted. */
const unsentCharactersMax = 262_144;

type PostOptions = {
  frames: ReplyFrames;
  replyTo: string;
  requestId: string;
  run: number;
  /** The ingress is gone, and its client with it. Called at most once. */
  onGone: () => void;
};

type SenderOptions = PostOptions & {
  /** The first text is about to be sent. */
  onFirstText?: () => void;
  /** Is sent with the first text, or else with the last reply. */
  served?: () => RunProgress | undefined;
  /** Left out if no body is sent. */
  pieces?: PieceOptions;
};

export function createReplySender(deps: SenderOptions): ReplySender {
  const { onFirstText, served = () => undefined } = deps;
  const { post, latest, isGone } = createPost(deps);
  let latestText: { posted: PostedReply; characters: number } | undefined;
  let tokensSent = 0;
  let unsent = 0;

  const opening = createOpening((content) => post([content], { isUrgent: false }));

  /** The last reply needs no opening before it: it has all that the ingress still needs. */
  function sendLast(content: ReplyContent): Promise<void> {
    opening.take();
    if (!isGone()) post([latestText === undefined ? withServed(content, served()) : content], { isUrgent: true });
    return latest();
  }

  function sendEnd(finalEvents: string, ending: ReplyContent): Promise<void> {
    if (isGone() || finalEvents === '') return sendLast(ending);
    post([...textReplies(finalEvents, tokensSent), ending], { isUrgent: true });
    return latest();
  }

  async function sendPiece(data: string, bytes: number): Promise<void> {
    if (!isGone()) post([...opening.take(), { kind: 'piece', data, bytes }], { isUrgent: true });
    await latest();
  }

  async function sendInPieces(body: AnswerBody, usage: TokenUsage): Promise<void> {
    if (deps.pieces === undefined) throw new Error('this run sends no bodies');
    const isSent = await sendPieces(body, { ...deps.pieces, request: deps.requestId }, sendPiece);
    await sendLast(isSent ? { kind: 'end', data: { usage } } : { kind: 'error', data: packError(replyLost(true)) });
  }

  function sendBody(body: AnswerBody, usage: TokenUsage): Promise<void> {
    if (bytesOfBody(body) > wholeBytesMax) return sendInPieces(body, usage);
    return sendLast({ kind: 'end', data: { body: textOfBody(body), usage } });
  }

  /** A chunk, after the opening unless that was sent. */
  function textReplies(text: string, tokens: number): ReplyContent[] {
    const isFirst = latestText === undefined;
    if (isFirst) onFirstText?.();
    const content: ReplyContent = { kind: 'chunk', data: text, tokens };
    return [...opening.take(), isFirst ? withServed(content, served()) : content];
  }

  function postText(text: string, tokens: number): void {
    const posted = post(textReplies(text, tokens), { isUrgent: latestText === undefined });
    const waiting = { posted, characters: text.length };
    latestText = waiting;
    const onSent = () => {
      unsent -= waiting.characters;
    };
    posted.sent.then(onSent, onSent);
  }

  return {
    started: (control, queueMs) => opening.sendLater({ kind: 'started', data: { control, queueMs } }),
    async chunk(text, tokens) {
      if (isGone() || text === '') return;
      tokensSent = tokens;
      unsent += text.length;
      if (latestText?.posted.add(text, tokens)) latestText.characters += text.length;
      else postText(text, tokens);
      if (unsent > unsentCharactersMax) await latest();
    },
    end: ({ finalEvents = '', body, usage }) =>
      body === undefined ? sendEnd(finalEvents, { kind: 'end', data: { usage } }) : sendBody(body, usage),
    error: (error) => sendLast({ kind: 'error', data: packError(error) }),
    interrupted: (promptTokens) => sendLast({ kind: 'interrupted', data: { promptTokens } }),
  };
}

/** Posts replies in order and numbered, until the ingress is gone. `latest`: settles when all of them are in the stream. */
function createPost({ frames, replyTo, requestId, run, onGone }: PostOptions) {
  let sequence = 0;
  let gone = false;
  let latest: Promise<void> = Promise.resolve();
  return {
    latest: () => latest,
    isGone: () => gone,
    post(contents: readonly ReplyContent[], how: { isUrgent: boolean }): PostedReply {
      const replies = contents.map((content) => ({ request: requestId, run, sequence: sequence++, ...content }));
      const posted = frames.post(replyTo, replies, how);
      latest = posted.sent.then((isThere) => {
        if (isThere || gone) return;
        gone = true;
        onGone();
      });
      // A failed send is handled where the latest is awaited. An earlier one that is not awaited must not end the process.
      latest.catch(() => {});
      return posted;
    },
  };
}

/** The first reply, which waits for a while for the next one. */
function createOpening(post: (content: ReplyContent) => void) {
  let waiting: { content: ReplyContent; timer: NodeJS.Timeout } | undefined;

  function take(): ReplyContent[] {
    if (waiting === undefined) return [];
    const { content, timer } = waiting;
    clearTimeout(timer);
    waiting = undefined;
    return [content];
  }

  return {
    sendLater(content: ReplyContent): void {
      waiting = { content, timer: setTimeout(() => take().forEach(post), openingMs) };
    },
    /** Cancels it, if it was not sent yet, and returns it. */
    take,
  };
}

function withServed(content: ReplyContent, served: RunProgress | undefined): ReplyContent {
  return served === undefined ? content : { ...content, served };
}
