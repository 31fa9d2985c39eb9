import { chatForm, completionForm } from './choices-forms.ts';
import type { ClientForm } from './client-form.ts';
import { embeddingForm } from './embedding-form.ts';
import { messageForm, responseForm } from './named-event-forms.ts';
import { rerankForm } from './rerank-form.ts';

/** Every endpoint that answers a question of its client. */
export const everyForm: readonly ClientForm[] = [
  chatForm,
  completionForm,
  responseForm,
  messageForm,
  embeddingForm,
  rerankForm,
];

export function formAt(path: string): ClientForm | undefined {
  return everyForm.find((form) => form.path === path);
}
