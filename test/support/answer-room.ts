import { createAnswerBudget, type HeldAnswer } from '../../shared/process/answer-budget.ts';
import { type AnswerRoom, createAnswerRoom } from '../../workers/backend-client/call-backend.ts';

/** What is held of an answer in a process that holds no other. */
export const heldAlone = (): HeldAnswer => createAnswerBudget({ bytesMax: 1_073_741_824 }).hold('user:alice');

/** Room for one answer. Default: as large as any test needs. */
export const roomFor = (bytesMax = 33_554_432): AnswerRoom => createAnswerRoom({ held: heldAlone(), bytesMax });

/** What a reply buffer gets in an ingress that holds no other answer. */
export const roomOfBuffer = () => ({ held: heldAlone(), source: { pause() {}, resume() {} }, onStalled() {} });
