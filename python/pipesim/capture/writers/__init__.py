"""Writers of torch functions, one module for each sort. Importing them fills the table."""

from . import attention, elementwise, images, losses, norms, products, recurrent, reductions, shapes, tables
