/** A method of an official package. `text`: its result is a file, which has a text. `page`: it is a page with items in `data`. */
export type SdkCall = { sdk: 'openai' | 'anthropic'; method: string; result?: 'text' | 'page' };

/** The operations for which official packages have a method, by their ids. Python writes the same names with underscores. */
export const sdkCalls: Readonly<Record<string, SdkCall>> = {
  createChatCompletion: { sdk: 'openai', method: 'chat.completions.create' },
  createResponse: { sdk: 'openai', method: 'responses.create' },
  createMessage: { sdk: 'anthropic', method: 'messages.create' },
  countMessageTokens: { sdk: 'anthropic', method: 'messages.countTokens' },
  createCompletion: { sdk: 'openai', method: 'completions.create' },
  createEmbedding: { sdk: 'openai', method: 'embeddings.create' },
  listModels: { sdk: 'openai', method: 'models.list', result: 'page' },
  retrieveModel: { sdk: 'openai', method: 'models.retrieve' },
  uploadFile: { sdk: 'openai', method: 'files.create' },
  listFiles: { sdk: 'openai', method: 'files.list', result: 'page' },
  retrieveFile: { sdk: 'openai', method: 'files.retrieve' },
  retrieveFileContent: { sdk: 'openai', method: 'files.content', result: 'text' },
  deleteFile: { sdk: 'openai', method: 'files.delete' },
  createBatch: { sdk: 'openai', method: 'batches.create' },
  listBatches: { sdk: 'openai', method: 'batches.list', result: 'page' },
  retrieveBatch: { sdk: 'openai', method: 'batches.retrieve' },
  cancelBatch: { sdk: 'openai', method: 'batches.cancel' },
};
